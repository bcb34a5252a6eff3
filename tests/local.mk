# Tiers: check (a minute, in process), check-multi (processes, hosts in network namespaces), check-long (fuzz,
# faults, emulators). Needs GNU make.

# All tiers stand in TESTS so that automake writes a rule for each test; which of them run is decided when make
# runs: those of `check`, unless the command line says TESTS=…
TESTS = $(unit_tests) $(check_scripts) $(multi_tests) $(multi_scripts) $(long_tests) $(long_scripts)
AM_MAKEFLAGS = $(if $(filter command,$(origin TESTS)),,TESTS="$(tier_check)")
tier_check = $(unit_tests) $(check_scripts)
tier_multi = $(multi_tests) $(multi_scripts)
tier_long = $(long_tests) $(long_scripts)
# Of both: ranks that die, disagree or run out of memory; and ZeRO.
# What CI runs under sanitizers.
tier_fault = $(filter tests/fault/% tests/zero/%,$(multi_tests))
# Those of the second that make communicators, with two threads in each rank for all copies and reductions but the shortest.
tier_workers = $(filter-out tests/fault/%,$(multi_tests))

TEST_EXTENSIONS = .sh .py
SH_LOG_COMPILER = $(BASH)
PY_LOG_COMPILER = $(PYTHON)
BASH = /bin/bash
LOG_DRIVER = $(top_srcdir)/tests/harness/driver
SH_LOG_DRIVER = $(LOG_DRIVER)
PY_LOG_DRIVER = $(LOG_DRIVER)
AM_TESTS_ENVIRONMENT = \
	PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	WEFT_SRCDIR='$(abs_top_srcdir)'; export WEFT_SRCDIR; \
	WEFT_BUILDDIR='$(abs_top_builddir)'; export WEFT_BUILDDIR; \
	WEFT_SANITIZER='$(enable_sanitizer)'; export WEFT_SANITIZER; \
	WEFT_TEST_PYTHON_TORCH='$(PYTHON_TORCH)'; export WEFT_TEST_PYTHON_TORCH; \
	WEFT_TEST_HARDENING='$(WEFT_HARDENING)'; export WEFT_TEST_HARDENING; \
	WEFT_TEST_CC='$(CC) $(WEFT_SANITIZER_CFLAGS)'; export WEFT_TEST_CC; \
	ASAN_OPTIONS="$${ASAN_OPTIONS-detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0}"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="$${UBSAN_OPTIONS-print_stacktrace=1}"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="$${TSAN_OPTIONS-second_deadlock_stack=1:allocator_may_return_null=1:suppressions=$(abs_top_srcdir)/tests/harness/tsan.supp}"; export TSAN_OPTIONS; \
	if test '$(enable_sanitizer)' != no; then WEFT_TEST_SLOW=$${WEFT_TEST_SLOW-5}; export WEFT_TEST_SLOW; fi;

check-programs: all
	@$(MAKE) $(check_PROGRAMS) $(check_LTLIBRARIES)
check-multi: all
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-180} $(MAKE) check-am TESTS="$(tier_multi)" TEST_SUITE_LOG=check-multi.log
check-long: all
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-900} $(MAKE) check-am TESTS="$(tier_long)" TEST_SUITE_LOG=check-long.log
check-fault: all
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-900} $(MAKE) check-am TESTS="$(tier_fault)" TEST_SUITE_LOG=check-fault.log
check-workers: all
	@WEFT_WORKERS=2 WEFT_WORKER_BYTES=1000 WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT-180} \
		$(MAKE) check-am TESTS="$(tier_workers)" TEST_SUITE_LOG=check-workers.log

# make tally tiers="check multi": sum what the newest runs of these tiers left.
tiers = check
tally:
	@$(top_srcdir)/tests/harness/tally $(addsuffix .trs,$(patsubst %.py,%,$(patsubst %.sh,%,$(foreach t,$(tiers),$(tier_$(t))))))

print-unit-tests:
	@echo $(unit_tests)

# The same tests, built apart with a sanitizer.
check-asan check-ubsan check-tsan check-asan-ubsan:
	@kind=$@; $(top_srcdir)/bootstrap $${kind#check-}

.PHONY: check-programs check-multi check-long check-fault check-workers check-asan check-ubsan check-tsan check-asan-ubsan tally print-unit-tests

noinst_HEADERS += tests/unit/unit.h
EXTRA_DIST += $(check_scripts) $(multi_scripts) $(long_scripts) tests/harness/driver tests/harness/tally tests/harness/tsan.supp

multi_scripts += tests/cli/test_bootstrap.sh tests/cli/test_ci_run.sh
EXTRA_DIST += .ci/run
long_scripts += tests/cross/test_aarch64.sh
EXTRA_DIST += tests/harness/sysroot.sh
