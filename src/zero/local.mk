# SPDX-License-Identifier: BSD-3-Clause
# libweft_zero: a client of the public interface (doc/adr/0031-zero.md). The engine, and below it rooms that do not know of it.
zero_sources += src/zero/zero.h src/zero/engine.c src/zero/experts.c src/zero/model.c src/zero/seal.c src/zero/layout.c \
	src/zero/arena.c src/zero/arena.h src/zero/trace.c src/zero/trace.h \
	src/zero/gather.c src/zero/grads.c src/zero/load.c src/zero/offload.c src/zero/offload.h \
	src/zero/parts.c src/zero/passes.c \
	src/zero/place.c src/zero/place.h src/zero/save.c src/zero/state.c src/zero/step.c src/zero/spill.c src/zero/spill.h \
	src/zero/spill_runs.c src/zero/spill_runs.h src/zero/sums.c src/zero/swap.c src/zero/swap.h \
	src/zero/tensors.c src/zero/tensors.h \
	src/zero/tier.c src/zero/tier.h src/zero/update.c src/zero/values.c
zero_sources += src/zero/common/config_fields.c src/zero/common/config_fields.h src/zero/common/publish.c src/zero/common/publish.h
zero_sources += src/zero/optim/optim.c src/zero/optim/optim.h src/zero/optim/optim_avx2.c src/zero/optim/optim_avx512.c \
	src/zero/optim/optim_codes.c src/zero/optim/optim_isa.h src/zero/optim/optim_kernels.h src/zero/optim/optim_lamb.c \
	src/zero/optim/optim_muon.c src/zero/optim/optim_pool.c src/zero/optim/optim_scalar.c src/zero/optim/optim_table.c \
	src/zero/optim/optim_user.c
zero_sources += src/zero/disk/disk.c src/zero/disk/disk.h src/zero/disk/disk_code.c src/zero/disk/disk_copy.c src/zero/disk/disk_file.c \
	src/zero/disk/disk_internal.h src/zero/disk/disk_op.c src/zero/disk/disk_stream.c src/zero/disk/disk_threads.c \
	src/zero/disk/disk_uring.c
zero_sources += src/zero/ckpt/ckpt.h src/zero/ckpt/ckpt_agree.c src/zero/ckpt/ckpt_buffer.c src/zero/ckpt/ckpt_buffer.h \
	src/zero/ckpt/ckpt_commit.c src/zero/ckpt/ckpt_export.c \
	src/zero/ckpt/ckpt_format.c src/zero/ckpt/ckpt_format.h src/zero/ckpt/ckpt_impl.h src/zero/ckpt/ckpt_index.c \
	src/zero/ckpt/ckpt_io.c src/zero/ckpt/ckpt_io.h src/zero/ckpt/ckpt_manifest.c src/zero/ckpt/ckpt_open.c \
	src/zero/ckpt/ckpt_read.c src/zero/ckpt/ckpt_run.c src/zero/ckpt/ckpt_run.h src/zero/ckpt/ckpt_save.c \
	src/zero/ckpt/ckpt_snapshot.c src/zero/ckpt/ckpt_snapshot.h src/zero/ckpt/ckpt_write.c src/zero/ckpt/ckpt_writer.c
zero_sources += src/zero/ds/ds.h src/zero/ds/ds_config.c src/zero/ds/ds_config_text.c src/zero/ds/ds_key_macros.h \
	src/zero/ds/ds_keys.c src/zero/ds/ds_keys_other.c src/zero/ds/ds_optimizer.c src/zero/ds/ds_read.c src/zero/ds/ds_text.c \
	src/zero/ds/ds_value.c
