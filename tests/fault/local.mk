# Ranks that disagree, die, stop, abort or run out of memory.
multi_tests += tests/fault/test_mismatch tests/fault/test_kill tests/fault/test_packed
tests_fault_test_packed_SOURCES = tests/fault/test_packed.c tests/fault/fault.h
tests_fault_test_packed_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_fault_test_mismatch_SOURCES = tests/fault/test_mismatch.c tests/fault/fault.h
tests_fault_test_mismatch_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_fault_test_kill_SOURCES = tests/fault/test_kill.c tests/fault/fault.h
tests_fault_test_kill_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/fault/test_flood
tests_fault_test_flood_SOURCES = tests/fault/test_flood.c tests/fault/fault.h
tests_fault_test_flood_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
# Failing allocations: a sample, and all of them.
alloc_sources = tests/fault/test_alloc.c tests/fault/alloc_calls.c tests/fault/alloc_calls.h tests/fault/exhaust.h tests/fault/fault.h
alloc_ldflags = $(AM_LDFLAGS) $(foreach f,malloc calloc realloc aligned_alloc free mmap fopen open_memstream opendir getifaddrs \
	pthread_create OSSL_LIB_CTX_new EVP_KDF_fetch EVP_MAC_fetch,-Wl,--wrap=$(f))
multi_tests += tests/fault/test_alloc
tests_fault_test_alloc_SOURCES = $(alloc_sources)
tests_fault_test_alloc_CPPFLAGS = $(AM_CPPFLAGS) -DSTRIDE=7
tests_fault_test_alloc_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(CRYPTO_LIBS)
tests_fault_test_alloc_LDFLAGS = $(alloc_ldflags)
multi_tests += tests/fault/test_alloc_each
tests_fault_test_alloc_each_SOURCES = tests/fault/test_alloc_each.c tests/fault/exhaust.h tests/fault/fault.h
tests_fault_test_alloc_each_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(CRYPTO_LIBS) -lpthread
tests_fault_test_alloc_each_LDFLAGS = $(alloc_ldflags)
long_tests += tests/fault/test_alloc_all
tests_fault_test_alloc_all_SOURCES = $(alloc_sources)
tests_fault_test_alloc_all_CPPFLAGS = $(AM_CPPFLAGS)
tests_fault_test_alloc_all_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(CRYPTO_LIBS)
tests_fault_test_alloc_all_LDFLAGS = $(alloc_ldflags)
# A network that flips bits: the library's connections are led through a proxy.
multi_tests += tests/fault/test_corrupt
tests_fault_test_corrupt_SOURCES = tests/fault/test_corrupt.c tests/fault/fault.h
tests_fault_test_corrupt_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
tests_fault_test_corrupt_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=connect
multi_tests += tests/fault/test_process
tests_fault_test_process_SOURCES = tests/fault/test_process.c tests/fault/fault.h
tests_fault_test_process_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/fault/test_shm_full
tests_fault_test_shm_full_SOURCES = tests/fault/test_shm_full.c tests/fault/fault.h
tests_fault_test_shm_full_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
# Four hosts whose network is cut, swallows, is divided or loses; the probe is a rank that reduces until it fails.
multi_scripts += tests/fault/test_network.sh
test_programs += tests/fault/network_probe
tests_fault_network_probe_SOURCES = tests/fault/network_probe.c
tests_fault_network_probe_LDADD = libweft.la
multi_tests += tests/fault/test_refused
tests_fault_test_refused_SOURCES = tests/fault/test_refused.c tests/fault/fault.h
tests_fault_test_refused_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/fault/test_late
tests_fault_test_late_SOURCES = tests/fault/test_late.c tests/fault/fault.h
tests_fault_test_late_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/fault/test_fork
tests_fault_test_fork_SOURCES = tests/fault/test_fork.c tests/fault/fault.h
tests_fault_test_fork_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/fault/test_offers
tests_fault_test_offers_SOURCES = tests/fault/test_offers.c tests/fault/fault.h
tests_fault_test_offers_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
