# The public API over real ranks.
multi_tests += tests/multi/test_api tests/multi/test_wrong_use
tests_multi_test_api_SOURCES = tests/multi/test_api.c tests/fault/fault.h
tests_multi_test_api_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_multi_test_wrong_use_SOURCES = tests/multi/test_wrong_use.c tests/fault/fault.h
tests_multi_test_wrong_use_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_last_error
tests_multi_test_last_error_SOURCES = tests/multi/test_last_error.c tests/fault/fault.h
tests_multi_test_last_error_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_keys
tests_multi_test_keys_SOURCES = tests/multi/test_keys.c
tests_multi_test_keys_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_card
tests_multi_test_card_SOURCES = tests/multi/test_card.c tests/fault/fault.h
tests_multi_test_card_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_messages
tests_multi_test_messages_SOURCES = tests/multi/test_messages.c tests/fault/fault.h
tests_multi_test_messages_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_calls
tests_multi_test_calls_SOURCES = tests/multi/test_calls.c tests/fault/fault.h
tests_multi_test_calls_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_complete
tests_multi_test_complete_SOURCES = tests/multi/test_complete.c tests/fault/fault.h
tests_multi_test_complete_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_scripts += tests/multi/test_access.sh tests/multi/test_levels.sh tests/multi/test_levels_hosts.sh tests/multi/test_rails.sh
multi_tests += tests/multi/test_maps
tests_multi_test_maps_SOURCES = tests/multi/test_maps.c tests/fault/fault.h
tests_multi_test_maps_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)

multi_tests += tests/multi/test_topology_api
tests_multi_test_topology_api_SOURCES = tests/multi/test_topology_api.c tests/fault/fault.h
tests_multi_test_topology_api_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
# What no rank of one library does by itself: it merges what all have into something else.
tests_multi_test_topology_api_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=wi_topo_merge
multi_tests += tests/multi/test_plans
tests_multi_test_plans_SOURCES = tests/multi/test_plans.c tests/conform/collect.h tests/conform/collect_data.c \
	tests/conform/collect_call.c tests/conform/collect_world.c
tests_multi_test_plans_LDADD = libharness.la libweftcore.la -lm
multi_tests += tests/multi/test_many_ranks
tests_multi_test_many_ranks_SOURCES = tests/multi/test_many_ranks.c tests/conform/collect.h \
	tests/conform/collect_data.c tests/conform/collect_call.c tests/conform/collect_world.c
tests_multi_test_many_ranks_LDADD = libharness.la libweftcore.la -lm
multi_tests += tests/multi/test_kept
tests_multi_test_kept_SOURCES = tests/multi/test_kept.c tests/fault/fault.h
tests_multi_test_kept_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_barrier
tests_multi_test_barrier_SOURCES = tests/multi/test_barrier.c tests/fault/fault.h
tests_multi_test_barrier_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_stress
tests_multi_test_stress_SOURCES = tests/multi/test_stress.c tests/fault/fault.h
tests_multi_test_stress_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_threads
tests_multi_test_threads_SOURCES = tests/multi/test_threads.c tests/fault/fault.h
tests_multi_test_threads_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_destroy
tests_multi_test_destroy_SOURCES = tests/multi/test_destroy.c tests/fault/fault.h
tests_multi_test_destroy_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_scale
tests_multi_test_scale_SOURCES = tests/multi/test_scale.c tests/fault/fault.h
tests_multi_test_scale_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_streaming
tests_multi_test_streaming_SOURCES = tests/multi/test_streaming.c tests/fault/fault.h
tests_multi_test_streaming_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_multi_test_streaming_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=wi_reduce
long_tests += tests/multi/test_huge
tests_multi_test_huge_SOURCES = tests/multi/test_huge.c tests/fault/fault.h
tests_multi_test_huge_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/multi/test_engine
tests_multi_test_engine_SOURCES = tests/multi/test_engine.c tests/fault/fault.h tests/harness/late.h tests/harness/late.c
tests_multi_test_engine_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_progress_budget
tests_multi_test_progress_budget_SOURCES = tests/multi/test_progress_budget.c tests/fault/fault.h tests/harness/late.h tests/harness/late.c
tests_multi_test_progress_budget_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
multi_tests += tests/multi/test_gates
tests_multi_test_gates_SOURCES = tests/multi/test_gates.c tests/fault/fault.h
tests_multi_test_gates_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
