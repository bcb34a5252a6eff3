# SPDX-License-Identifier: BSD-3-Clause
# The parts of libweft_zero, and engines over real ranks.
multi_tests += tests/zero/test_zero
tests_zero_test_zero_SOURCES = tests/zero/test_zero.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_LDADD = libharness.la libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_zero_wrong
tests_zero_test_zero_wrong_SOURCES = tests/zero/test_zero_wrong.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_wrong_LDADD = libharness.la libweftzerocore.la libweftcore.la $(CUNIT_LIBS) -lm
multi_tests += tests/zero/test_ckpt
tests_zero_test_ckpt_SOURCES = tests/zero/test_ckpt.c tests/zero/ckpt_model.h
tests_zero_test_ckpt_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
multi_tests += tests/zero/test_zero_save
tests_zero_test_zero_save_SOURCES = tests/zero/test_zero_save.c tests/zero/model.h tests/fault/fault.h
tests_zero_test_zero_save_LDADD = libharness.la libweftzerocore.la libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS) -lm
unit_tests += tests/zero/test_crc32c
tests_zero_test_crc32c_SOURCES = tests/zero/test_crc32c.c
tests_zero_test_crc32c_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/zero/test_disk tests/zero/test_disk_faults
tests_zero_test_disk_SOURCES = tests/zero/test_disk.c tests/zero/disk_common.c tests/zero/disk_common.h
tests_zero_test_disk_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
tests_zero_test_disk_faults_SOURCES = tests/zero/test_disk_faults.c tests/zero/disk_common.c
tests_zero_test_disk_faults_LDADD = libweftzerocore.la libweftcore.la $(CUNIT_LIBS)
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
