# SPDX-License-Identifier: BSD-3-Clause
# libweft_zero: a client of the public interface (doc/adr/0031-zero.md).
zero_sources += src/zero/zero.h src/zero/engine.c src/zero/model.c src/zero/seal.c src/zero/layout.c \
	src/zero/arena.c src/zero/arena.h src/zero/trace.c src/zero/trace.h \
	src/zero/gather.c src/zero/grads.c src/zero/passes.c src/zero/step.c src/zero/values.c
zero_sources += src/zero/optim.h src/zero/optim.c
