# SPDX-License-Identifier: BSD-3-Clause
# The parts of libweft_zero, and engines over real ranks.
multi_tests += tests/zero/test_zero
tests_zero_test_zero_SOURCES = tests/zero/test_zero.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_LDADD = libharness.la libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_zero_wrong
tests_zero_test_zero_wrong_SOURCES = tests/zero/test_zero_wrong.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_wrong_LDADD = libharness.la libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_zero_more
tests_zero_test_zero_more_SOURCES = tests/zero/test_zero_more.c tests/zero/layers.h tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_more_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_zero_files
tests_zero_test_zero_files_SOURCES = tests/zero/test_zero_files.c tests/zero/layers.h tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_files_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_zero_tier
tests_zero_test_zero_tier_SOURCES = tests/zero/test_zero_tier.c tests/zero/layers.h tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_tier_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_ckpt
tests_zero_test_ckpt_SOURCES = tests/zero/test_ckpt.c tests/zero/ckpt_model.h
tests_zero_test_ckpt_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
# Files and ranks that lie.
multi_tests += tests/zero/test_ckpt_hostile
tests_zero_test_ckpt_hostile_SOURCES = tests/zero/test_ckpt_hostile.c tests/zero/ckpt_model.h
tests_zero_test_ckpt_hostile_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
multi_tests += tests/zero/test_zero_save
tests_zero_test_zero_save_SOURCES = tests/zero/test_zero_save.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_save_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
unit_tests += tests/zero/test_crc32c
tests_zero_test_crc32c_SOURCES = tests/zero/test_crc32c.c
tests_zero_test_crc32c_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/zero/test_disk tests/zero/test_disk_limits tests/zero/test_disk_faults
tests_zero_test_disk_SOURCES = tests/zero/test_disk.c tests/zero/disk_common.c tests/zero/disk_common.h tests/zero/disk_cases.h
tests_zero_test_disk_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
tests_zero_test_disk_limits_SOURCES = tests/zero/test_disk_limits.c tests/zero/disk_common.c
tests_zero_test_disk_limits_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
tests_zero_test_disk_faults_SOURCES = tests/zero/test_disk_faults.c tests/zero/disk_common.c
tests_zero_test_disk_faults_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
test_programs += tests/bench/bench_disk
tests_bench_bench_disk_SOURCES = tests/bench/bench_disk.c
tests_bench_bench_disk_LDADD = libweftzerocore.la libweftcore.la
EXTRA_DIST += tests/bench/disk_against_fio.sh
multi_tests += tests/zero/test_zero_parallel
tests_zero_test_zero_parallel_SOURCES = tests/zero/test_zero_parallel.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_parallel_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
# ds_config. tests/zero/deepspeed_keys.txt has the names that DeepSpeed knows; zero-config.py makes the guide's table of them.
unit_tests += tests/zero/test_ds_config tests/zero/test_ds_text
tests_zero_test_ds_config_SOURCES = tests/zero/test_ds_config.c tests/zero/ds_common.h
tests_zero_test_ds_config_LDADD = libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
tests_zero_test_ds_text_SOURCES = tests/zero/test_ds_text.c tests/zero/ds_common.h
tests_zero_test_ds_text_LDADD = libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
test_programs += tests/zero/print_ds_keys
tests_zero_print_ds_keys_SOURCES = tests/zero/print_ds_keys.c
tests_zero_print_ds_keys_LDADD = libweftzerocore.la libweftcore.la
check_scripts += tests/zero/test_ds_keys.py
EXTRA_DIST += tests/zero/deepspeed_keys.py tests/zero/deepspeed_keys.txt
unit_tests += tests/zero/test_optim tests/zero/test_optim_sums tests/zero/test_optim_pool
tests_zero_test_optim_SOURCES = tests/zero/test_optim.c tests/zero/optim_common.h
tests_zero_test_optim_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
tests_zero_test_optim_sums_SOURCES = tests/zero/test_optim_sums.c tests/zero/optim_common.h
tests_zero_test_optim_sums_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
tests_zero_test_optim_pool_SOURCES = tests/zero/test_optim_pool.c
tests_zero_test_optim_pool_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lpthread
test_programs += tests/bench/bench_optim
tests_bench_bench_optim_SOURCES = tests/bench/bench_optim.c
tests_bench_bench_optim_LDADD = libweftzerocore.la libweftcore.la -lm -lpthread
test_modules += bench_optim_module.la
bench_optim_module_la_SOURCES = tests/bench/optim_module.c
bench_optim_module_la_LIBADD = libweftzerocore.la libweftbase.la libweft.la -lm -lpthread
bench_optim_module_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath $(plugindir)
EXTRA_DIST += tests/bench/bench_optim_torch.py
# Kills, failing calls and allocations: a sample of the kills, and many.
ckpt_faults_ldflags = $(AM_LDFLAGS) $(foreach f,mkdir mkdirat openat pwrite pread fsync renameat renameat2 linkat unlinkat flock fstatat,\
	-Wl,--wrap=$(f))
multi_tests += tests/zero/test_ckpt_faults
tests_zero_test_ckpt_faults_SOURCES = tests/zero/test_ckpt_faults.c tests/zero/ckpt_model.h
tests_zero_test_ckpt_faults_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
tests_zero_test_ckpt_faults_LDFLAGS = $(ckpt_faults_ldflags)
long_tests += tests/zero/test_ckpt_faults_all
tests_zero_test_ckpt_faults_all_SOURCES = tests/zero/test_ckpt_faults.c tests/zero/ckpt_model.h
tests_zero_test_ckpt_faults_all_CPPFLAGS = $(AM_CPPFLAGS) -DTRIALS=200 -DSTRIDE=1
tests_zero_test_ckpt_faults_all_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
tests_zero_test_ckpt_faults_all_LDFLAGS = $(ckpt_faults_ldflags)
# Loss of power: a sample of what survives, and many. Without FUSE they say that they are skipped.
ckpt_power_sources = tests/zero/test_ckpt_power.c tests/zero/faultfs.c tests/zero/faultfs.h tests/zero/ckpt_model.h
ckpt_power_ldadd = libharness.la libweftzerocore.la libweftcore.la $(FUSE3_LIBS) $(CUNIT_LIBS)
multi_tests += tests/zero/test_ckpt_power
tests_zero_test_ckpt_power_SOURCES = $(ckpt_power_sources)
tests_zero_test_ckpt_power_CPPFLAGS = $(AM_CPPFLAGS) $(FUSE3_CFLAGS) -DSEEDS=1
tests_zero_test_ckpt_power_LDADD = $(ckpt_power_ldadd)
long_tests += tests/zero/test_ckpt_power_all
tests_zero_test_ckpt_power_all_SOURCES = $(ckpt_power_sources)
tests_zero_test_ckpt_power_all_CPPFLAGS = $(AM_CPPFLAGS) $(FUSE3_CFLAGS) -DSEEDS=50
tests_zero_test_ckpt_power_all_LDADD = $(ckpt_power_ldadd)
# Built with the tests, run by hand.
test_programs += tests/zero/bench_ckpt
tests_zero_bench_ckpt_SOURCES = tests/zero/bench_ckpt.c
tests_zero_bench_ckpt_LDADD = libweftzerocore.la libweftcore.la
test_programs += tests/bench/bench_zero
tests_bench_bench_zero_SOURCES = tests/bench/bench_zero.c
tests_bench_bench_zero_LDADD = libweft_zero.la libweft.la
multi_scripts += tests/zero/test_zero_limit.sh
unit_tests += tests/zero/test_struct_prefix_zero
tests_zero_test_struct_prefix_zero_SOURCES = tests/zero/test_struct_prefix_zero.c tests/unit/struct_rows.h
tests_zero_test_struct_prefix_zero_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
# Optimizers that are more than a formula for each element.
multi_tests += tests/zero/test_zero_optims
tests_zero_test_zero_optims_SOURCES = tests/zero/test_zero_optims.c tests/zero/newton_schulz.h tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_optims_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
unit_tests += tests/zero/test_optim_lamb
tests_zero_test_optim_lamb_SOURCES = tests/zero/test_optim_lamb.c tests/zero/optim_common.h
tests_zero_test_optim_lamb_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/zero/test_optim_muon
tests_zero_test_optim_muon_SOURCES = tests/zero/test_optim_muon.c tests/zero/newton_schulz.h tests/zero/optim_common.h
tests_zero_test_optim_muon_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/zero/test_optim_codes
tests_zero_test_optim_codes_SOURCES = tests/zero/test_optim_codes.c tests/zero/optim_common.h
tests_zero_test_optim_codes_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
