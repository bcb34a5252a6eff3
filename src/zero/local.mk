# SPDX-License-Identifier: BSD-3-Clause
# libweft_zero: a client of the public interface (doc/adr/0031-zero.md).
zero_sources += src/zero/optim.h src/zero/create.c
