# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets. test_fuzz.sh builds each with clang's libFuzzer, from the library's sources, and runs it for a while on what it must
# judge: minutes in the long tier, seconds in the second (test_fuzz_quick.sh). A target that judges a tool's file, or a plugin, names
# their sources in its head ("with: ..."). corpus/<target>/ holds small inputs that reach deep, and those that found a defect; text
# schedules start from tests/golden, too. In the first tier replay_<target>, with a main function of its own, runs every input of
# the corpus, so that they are judged where there is no clang, and under the sanitizers of gcc.
fuzz_targets = \
	tests/fuzz/fuzz_auth.c \
	tests/fuzz/fuzz_ckpt.c \
	tests/fuzz/fuzz_codec.c \
	tests/fuzz/fuzz_ds_config.c \
	tests/fuzz/fuzz_gather.c \
	tests/fuzz/fuzz_handshake.c \
	tests/fuzz/fuzz_hier.c \
	tests/fuzz/fuzz_id.c \
	tests/fuzz/fuzz_import.c \
	tests/fuzz/fuzz_join.c \
	tests/fuzz/fuzz_local_key.c \
	tests/fuzz/fuzz_mesh.c \
	tests/fuzz/fuzz_notice.c \
	tests/fuzz/fuzz_oob.c \
	tests/fuzz/fuzz_packed.c \
	tests/fuzz/fuzz_pmi.c \
	tests/fuzz/fuzz_record.c \
	tests/fuzz/fuzz_residual.c \
	tests/fuzz/fuzz_sched.c \
	tests/fuzz/fuzz_settings.c \
	tests/fuzz/fuzz_shm_descriptor.c \
	tests/fuzz/fuzz_shm_hello.c \
	tests/fuzz/fuzz_shm_ring.c \
	tests/fuzz/fuzz_side.c \
	tests/fuzz/fuzz_step.c \
	tests/fuzz/fuzz_store.c \
	tests/fuzz/fuzz_tcp_claims.c \
	tests/fuzz/fuzz_tcp_frames.c \
	tests/fuzz/fuzz_tensor.c \
	tests/fuzz/fuzz_topo.c \
	tests/fuzz/fuzz_tuning.c

# The codec that is a plugin, where libzstd is.
if HAVE_ZSTD
fuzz_targets += tests/fuzz/fuzz_lossless.c
unit_tests += tests/fuzz/replay_lossless
tests_fuzz_replay_lossless_SOURCES = tests/fuzz/fuzz_lossless.c tests/fuzz/replay.c plugins/zstd/lossless.c plugins/zstd/planes.c
tests_fuzz_replay_lossless_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
tests_fuzz_replay_lossless_LDADD = $(replay_ldadd) $(ZSTD_LIBS) -lpthread
endif

replay_ldadd = libweftcore.la $(JANSSON_LIBS) $(CRYPTO_LIBS) -lm
unit_tests += \
	tests/fuzz/replay_auth \
	tests/fuzz/replay_ckpt \
	tests/fuzz/replay_codec \
	tests/fuzz/replay_ds_config \
	tests/fuzz/replay_gather \
	tests/fuzz/replay_handshake \
	tests/fuzz/replay_hier \
	tests/fuzz/replay_id \
	tests/fuzz/replay_import \
	tests/fuzz/replay_join \
	tests/fuzz/replay_local_key \
	tests/fuzz/replay_mesh \
	tests/fuzz/replay_notice \
	tests/fuzz/replay_oob \
	tests/fuzz/replay_packed \
	tests/fuzz/replay_pmi \
	tests/fuzz/replay_record \
	tests/fuzz/replay_residual \
	tests/fuzz/replay_sched \
	tests/fuzz/replay_settings \
	tests/fuzz/replay_shm_descriptor \
	tests/fuzz/replay_shm_hello \
	tests/fuzz/replay_shm_ring \
	tests/fuzz/replay_side \
	tests/fuzz/replay_step \
	tests/fuzz/replay_store \
	tests/fuzz/replay_tcp_claims \
	tests/fuzz/replay_tcp_frames \
	tests/fuzz/replay_tensor \
	tests/fuzz/replay_topo \
	tests/fuzz/replay_tuning
tests_fuzz_replay_auth_SOURCES = tests/fuzz/fuzz_auth.c tests/fuzz/replay.c
tests_fuzz_replay_auth_LDADD = $(replay_ldadd)
tests_fuzz_replay_ckpt_SOURCES = tests/fuzz/fuzz_ckpt.c tests/fuzz/replay.c
tests_fuzz_replay_ckpt_LDADD = libweftzerocore.la $(replay_ldadd)
tests_fuzz_replay_codec_SOURCES = tests/fuzz/fuzz_codec.c tests/fuzz/replay.c
tests_fuzz_replay_codec_LDADD = $(replay_ldadd)
tests_fuzz_replay_ds_config_SOURCES = tests/fuzz/fuzz_ds_config.c tests/fuzz/replay.c
tests_fuzz_replay_ds_config_LDADD = libweftzerocore.la $(replay_ldadd)
tests_fuzz_replay_gather_SOURCES = tests/fuzz/fuzz_gather.c tests/fuzz/replay.c
tests_fuzz_replay_gather_LDADD = $(replay_ldadd)
tests_fuzz_replay_handshake_SOURCES = tests/fuzz/fuzz_handshake.c tests/fuzz/replay.c
tests_fuzz_replay_handshake_LDADD = $(replay_ldadd)
tests_fuzz_replay_hier_SOURCES = tests/fuzz/fuzz_hier.c tests/fuzz/replay.c
tests_fuzz_replay_hier_LDADD = $(replay_ldadd)
tests_fuzz_replay_id_SOURCES = tests/fuzz/fuzz_id.c tests/fuzz/replay.c
tests_fuzz_replay_id_LDADD = $(replay_ldadd)
tests_fuzz_replay_import_SOURCES = tests/fuzz/fuzz_import.c tests/fuzz/replay.c
tests_fuzz_replay_import_LDADD = $(replay_ldadd)
tests_fuzz_replay_join_SOURCES = tests/fuzz/fuzz_join.c tests/fuzz/replay.c
tests_fuzz_replay_join_LDADD = $(replay_ldadd)
tests_fuzz_replay_local_key_SOURCES = tests/fuzz/fuzz_local_key.c tests/fuzz/replay.c
tests_fuzz_replay_local_key_LDADD = $(replay_ldadd)
tests_fuzz_replay_notice_SOURCES = tests/fuzz/fuzz_notice.c tests/fuzz/replay.c
tests_fuzz_replay_notice_LDADD = $(replay_ldadd)
tests_fuzz_replay_oob_SOURCES = tests/fuzz/fuzz_oob.c tests/fuzz/replay.c
tests_fuzz_replay_oob_LDADD = $(replay_ldadd)
tests_fuzz_replay_mesh_SOURCES = tests/fuzz/fuzz_mesh.c tests/fuzz/replay.c
tests_fuzz_replay_mesh_LDADD = $(replay_ldadd)
tests_fuzz_replay_packed_SOURCES = tests/fuzz/fuzz_packed.c tests/fuzz/replay.c
tests_fuzz_replay_packed_LDADD = $(replay_ldadd)
tests_fuzz_replay_pmi_SOURCES = tests/fuzz/fuzz_pmi.c tests/fuzz/replay.c
tests_fuzz_replay_pmi_LDADD = $(replay_ldadd)
tests_fuzz_replay_record_SOURCES = tests/fuzz/fuzz_record.c tests/fuzz/replay.c
tests_fuzz_replay_record_LDADD = $(replay_ldadd)
tests_fuzz_replay_residual_SOURCES = tests/fuzz/fuzz_residual.c tests/fuzz/replay.c
tests_fuzz_replay_residual_LDADD = $(replay_ldadd)
tests_fuzz_replay_sched_SOURCES = tests/fuzz/fuzz_sched.c tests/fuzz/replay.c
tests_fuzz_replay_sched_LDADD = $(replay_ldadd)
tests_fuzz_replay_settings_SOURCES = tests/fuzz/fuzz_settings.c tests/fuzz/replay.c
tests_fuzz_replay_settings_LDADD = $(replay_ldadd)
tests_fuzz_replay_shm_descriptor_SOURCES = tests/fuzz/fuzz_shm_descriptor.c tests/fuzz/replay.c
tests_fuzz_replay_shm_descriptor_LDADD = $(replay_ldadd)
tests_fuzz_replay_shm_hello_SOURCES = tests/fuzz/fuzz_shm_hello.c tests/fuzz/replay.c
tests_fuzz_replay_shm_hello_LDADD = $(replay_ldadd)
tests_fuzz_replay_shm_ring_SOURCES = tests/fuzz/fuzz_shm_ring.c tests/fuzz/replay.c
tests_fuzz_replay_shm_ring_LDADD = $(replay_ldadd)
tests_fuzz_replay_side_SOURCES = tests/fuzz/fuzz_side.c tests/fuzz/replay.c
tests_fuzz_replay_side_LDADD = $(replay_ldadd)
tests_fuzz_replay_step_SOURCES = tests/fuzz/fuzz_step.c tests/fuzz/replay.c tools/sim_script.c tools/sim_world.c
tests_fuzz_replay_step_LDADD = $(replay_ldadd)
tests_fuzz_replay_store_SOURCES = tests/fuzz/fuzz_store.c tests/fuzz/replay.c
tests_fuzz_replay_store_LDADD = $(replay_ldadd)
tests_fuzz_replay_tcp_claims_SOURCES = tests/fuzz/fuzz_tcp_claims.c tests/fuzz/replay.c
tests_fuzz_replay_tcp_claims_LDADD = $(replay_ldadd)
tests_fuzz_replay_tcp_frames_SOURCES = tests/fuzz/fuzz_tcp_frames.c tests/fuzz/replay.c
tests_fuzz_replay_tcp_frames_LDADD = $(replay_ldadd)
tests_fuzz_replay_tensor_SOURCES = tests/fuzz/fuzz_tensor.c tests/fuzz/replay.c tools/codec_file.c tools/codec_npy.c \
	tools/codec_safetensors.c
tests_fuzz_replay_tensor_LDADD = $(replay_ldadd)
tests_fuzz_replay_topo_SOURCES = tests/fuzz/fuzz_topo.c tests/fuzz/replay.c
tests_fuzz_replay_topo_LDADD = $(replay_ldadd)
tests_fuzz_replay_tuning_SOURCES = tests/fuzz/fuzz_tuning.c tests/fuzz/replay.c
tests_fuzz_replay_tuning_LDADD = $(replay_ldadd)

multi_scripts += tests/fuzz/test_fuzz_quick.sh
long_scripts += tests/fuzz/test_fuzz.sh
EXTRA_DIST += $(fuzz_targets) tests/fuzz/require.h tests/fuzz/shm_world.h tests/fuzz/corpus

# What test_fuzz.sh compiles, in words of the source tree.
print-fuzz:
	@echo 'sources="$(filter %.c,$(base_sources) $(libweft_sources) $(zero_sources))"'
	@echo 'targets="$(fuzz_targets)"'
	@echo 'flags="$(WEFT_FUZZ_FLAGS)"'
	@echo 'libs="$(HWLOC_LIBS) $(CRYPTO_LIBS) $(EXPAT_LIBS) $(JANSSON_LIBS) $(ZSTD_LIBS) $(LIBS)"'
WEFT_FUZZ_FLAGS = -D_GNU_SOURCE= $(HWLOC_CFLAGS) $(CRYPTO_CFLAGS) $(EXPAT_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(ZSTD_CFLAGS)
.PHONY: print-fuzz
