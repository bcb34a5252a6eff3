# SPDX-License-Identifier: BSD-3-Clause
# The checker against an independent interpreter: a sample, and all mutants of all registered algorithms.
mutants_common = tests/mutants/interp.h tests/mutants/interp_internal.h tests/mutants/interp_memory.c \
	tests/mutants/interp_two_sided.c tests/mutants/interp_mapped.c tests/mutants/interp_run.c \
	tests/mutants/mutate.h tests/mutants/mutate.c tests/mutants/campaign.h tests/mutants/campaign.c

unit_tests += tests/mutants/test_mutants
tests_mutants_test_mutants_SOURCES = tests/mutants/test_mutants.c tests/unit/sched_samples.c $(mutants_common)
tests_mutants_test_mutants_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
tests_mutants_test_mutants_LDADD = libweftcore.la $(CUNIT_LIBS)

long_tests += tests/mutants/mutants_long tests/mutants/mutants_long_9
tests_mutants_mutants_long_SOURCES = tests/mutants/mutants_long.c $(mutants_common)
tests_mutants_mutants_long_CPPFLAGS = $(AM_CPPFLAGS) -DMUTANTS_FROM=2 -DMUTANTS_TO=8
tests_mutants_mutants_long_LDADD = libweftcore.la
tests_mutants_mutants_long_9_SOURCES = tests/mutants/mutants_long.c $(mutants_common)
tests_mutants_mutants_long_9_CPPFLAGS = $(AM_CPPFLAGS) -DMUTANTS_FROM=9 -DMUTANTS_TO=9
tests_mutants_mutants_long_9_LDADD = libweftcore.la
CLEANFILES += tests/mutants/mutants_long.survivors tests/mutants/mutants_long_9.survivors
