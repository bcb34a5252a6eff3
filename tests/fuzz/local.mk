# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets: run_fuzz.sh builds each with clang's libFuzzer, from the library's sources, and runs it for a while on
# what it must judge. A target that judges a tool's file names the tool's sources in its head ("with: ..."). corpus/<target>/ holds small inputs that reach deep; text schedules start from tests/golden, too.
fuzz_targets = \
	tests/fuzz/fuzz_auth.c \
	tests/fuzz/fuzz_import.c \
	tests/fuzz/fuzz_sched.c \
	tests/fuzz/fuzz_settings.c \
	tests/fuzz/fuzz_shm_descriptor.c \
	tests/fuzz/fuzz_shm_hello.c \
	tests/fuzz/fuzz_shm_ring.c \
	tests/fuzz/fuzz_step.c \
	tests/fuzz/fuzz_store.c \
	tests/fuzz/fuzz_tcp_frames.c \
	tests/fuzz/fuzz_topo.c \
	tests/fuzz/fuzz_tuning.c
long_scripts += tests/fuzz/test_fuzz.sh
EXTRA_DIST += $(fuzz_targets) tests/fuzz/shm_world.h tests/fuzz/corpus

# What test_fuzz.sh compiles, in words of the source tree.
print-fuzz:
	@echo 'sources="$(filter %.c,$(libweft_sources))"'
	@echo 'targets="$(fuzz_targets)"'
	@echo 'flags="$(WEFT_FUZZ_FLAGS)"'
	@echo 'libs="$(HWLOC_LIBS) $(CRYPTO_LIBS) $(EXPAT_LIBS) $(JANSSON_LIBS) $(LIBS)"'
WEFT_FUZZ_FLAGS = -D_GNU_SOURCE= $(HWLOC_CFLAGS) $(CRYPTO_CFLAGS) $(EXPAT_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
.PHONY: print-fuzz
