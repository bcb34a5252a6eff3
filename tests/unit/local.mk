# SPDX-License-Identifier: BSD-3-Clause
unit_tests += tests/unit/test_reduce
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c
tests_unit_test_reduce_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

unit_tests += tests/unit/test_sched
tests_unit_test_sched_SOURCES = tests/unit/test_sched.c tests/unit/sched_samples.c tests/unit/sched_samples.h
tests_unit_test_sched_LDADD = libweftcore.la $(CUNIT_LIBS) $(JANSSON_LIBS)

unit_tests += tests/unit/test_algo
tests_unit_test_algo_SOURCES = tests/unit/test_algo.c
tests_unit_test_algo_LDADD = libweftcore.la $(CUNIT_LIBS) $(JANSSON_LIBS) -lm
