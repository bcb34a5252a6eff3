# SPDX-License-Identifier: BSD-3-Clause
# The executor against a plain interpreter of schedules, over a fake transport: a sample, and all forms of all algorithms.
exec_common = tests/exec/plain.h tests/exec/plain.c tests/exec/fake.h tests/exec/fake.c tests/exec/call.h \
	tests/exec/call.c tests/exec/world.h tests/exec/world.c tests/exec/cases.h tests/exec/cases.c \
	tests/exec/varied.h tests/exec/varied.c \
	tests/harness/late.h tests/harness/late.c

unit_tests += tests/exec/test_exec
tests_exec_test_exec_SOURCES = tests/exec/test_exec.c $(exec_common)
tests_exec_test_exec_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread

long_tests += tests/exec/exec_long
tests_exec_exec_long_SOURCES = tests/exec/exec_long.c $(exec_common)
tests_exec_exec_long_LDADD = libweftcore.la -lpthread
