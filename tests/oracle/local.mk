# SPDX-License-Identifier: BSD-3-Clause
# The planner's picks against the best times by events.
oracle_common = tests/oracle/world.h tests/oracle/world.c

unit_tests += tests/oracle/test_picks
tests_oracle_test_picks_SOURCES = $(oracle_common) tests/oracle/picks.h tests/oracle/picks.c tests/oracle/test_picks.c
tests_oracle_test_picks_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

# Built with the tests, run by hand.
test_programs += tests/oracle/make_picks
tests_oracle_make_picks_SOURCES = $(oracle_common) tests/oracle/make_picks.c
tests_oracle_make_picks_LDADD = libweftcore.la -lm
test_programs += tests/oracle/first_choice
tests_oracle_first_choice_SOURCES = tests/oracle/first_choice.c
tests_oracle_first_choice_LDADD = libweftcore.la -lm
EXTRA_DIST += tests/oracle/picks.txt
