# SPDX-License-Identifier: BSD-3-Clause
# libweft_zero: a client of the public interface (doc/adr/0031-zero.md).
zero_sources += src/zero/zero.h src/zero/engine.c src/zero/model.c src/zero/seal.c src/zero/layout.c \
	src/zero/arena.c src/zero/arena.h src/zero/trace.c src/zero/trace.h \
	src/zero/gather.c src/zero/grads.c src/zero/offload.c src/zero/offload.h src/zero/passes.c src/zero/save.c src/zero/step.c src/zero/swap.c src/zero/swap.h src/zero/values.c
zero_sources += src/zero/optim.h
zero_sources += src/zero/crc32c.h src/zero/crc32c.c
zero_sources += src/zero/ckpt.h src/zero/ckpt_format.h src/zero/ckpt_format.c src/zero/ckpt_impl.h src/zero/ckpt_io.h src/zero/ckpt_io.c \
	src/zero/ckpt_agree.c src/zero/ckpt_commit.c src/zero/ckpt_export.c src/zero/ckpt_index.c src/zero/ckpt_manifest.c \
	src/zero/ckpt_open.c src/zero/ckpt_read.c src/zero/ckpt_run.h src/zero/ckpt_run.c src/zero/ckpt_save.c src/zero/ckpt_write.c \
	src/zero/ckpt_writer.c
zero_sources += src/zero/disk.c src/zero/disk.h src/zero/disk_internal.h src/zero/disk_op.c src/zero/disk_file.c \
	src/zero/disk_trailer.c src/zero/disk_stream.c src/zero/disk_copy.c src/zero/disk_uring.c src/zero/disk_threads.c
zero_sources += src/zero/ds.h src/zero/ds_key_macros.h src/zero/ds_text.c src/zero/ds_keys.c src/zero/ds_keys_other.c \
	src/zero/ds_read.c src/zero/ds_value.c src/zero/ds_optimizer.c src/zero/ds_config.c src/zero/ds_config_text.c
zero_sources += src/zero/optim.c src/zero/optim_avx2.c src/zero/optim_avx512.c src/zero/optim_isa.h src/zero/optim_kernels.h \
	src/zero/optim_pool.c src/zero/optim_scalar.c
zero_sources += src/zero/optim_user.c src/zero/optim_lamb.c src/zero/lamb.c src/zero/optim_muon.c src/zero/muon.c src/zero/optim_codes.c src/zero/state.c
