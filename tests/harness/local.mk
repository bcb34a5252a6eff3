# Link with libharness.la to use tests/harness/harness.h.
check_LTLIBRARIES += libharness.la
libharness_la_SOURCES = tests/harness/calls.h tests/harness/harness.h tests/harness/internal.h tests/harness/says.h \
	tests/harness/check.c tests/harness/job.c tests/harness/settings.c tests/harness/threads.c

unit_tests += tests/unit/test_harness
tests_unit_test_harness_SOURCES = tests/unit/test_harness.c
tests_unit_test_harness_LDADD = libharness.la $(CUNIT_LIBS) -lpthread

check_scripts += tests/harness/test_driver.sh
multi_scripts += tests/multi/test_hosts.sh
EXTRA_DIST += tests/harness/hosts.sh tests/harness/slurm.sh tests/harness/levels.sh tests/harness/predict.sh
