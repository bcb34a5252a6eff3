# SPDX-License-Identifier: BSD-3-Clause
unit_tests += tests/unit/test_reduce tests/unit/test_reduce_convert tests/unit/test_reduce_calls
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c tests/unit/reduce_common.h
tests_unit_test_reduce_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
tests_unit_test_reduce_convert_SOURCES = tests/unit/test_reduce_convert.c tests/unit/reduce_common.h
tests_unit_test_reduce_convert_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
tests_unit_test_reduce_calls_SOURCES = tests/unit/test_reduce_calls.c tests/unit/reduce_common.h
tests_unit_test_reduce_calls_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

unit_tests += tests/unit/test_sched tests/unit/test_sched_text tests/unit/test_sched_check \
	tests/unit/test_sched_rules tests/unit/test_sched_races tests/unit/test_sched_stages tests/unit/test_sched_coded
tests_unit_test_sched_SOURCES = tests/unit/test_sched.c tests/unit/sched_samples.c tests/unit/sched_samples.h
tests_unit_test_sched_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_sched_text_SOURCES = tests/unit/test_sched_text.c tests/unit/sched_samples.c
tests_unit_test_sched_text_LDADD = libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
tests_unit_test_sched_stages_SOURCES = tests/unit/test_sched_stages.c
tests_unit_test_sched_stages_LDADD = libweftcore.la $(JANSSON_LIBS) $(CUNIT_LIBS)
tests_unit_test_sched_check_SOURCES = tests/unit/test_sched_check.c tests/unit/sched_samples.c
tests_unit_test_sched_check_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_sched_coded_SOURCES = tests/unit/test_sched_coded.c tests/unit/sched_programs.h tests/unit/sched_samples.c
tests_unit_test_sched_coded_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_sched_rules_SOURCES = tests/unit/test_sched_rules.c tests/unit/sched_programs.h tests/unit/sched_samples.c
tests_unit_test_sched_rules_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_sched_races_SOURCES = tests/unit/test_sched_races.c tests/unit/sched_programs.h tests/unit/sched_samples.c
tests_unit_test_sched_races_LDADD = libweftcore.la $(CUNIT_LIBS)
EXTRA_DIST += tests/golden/README

unit_tests += tests/unit/test_algo
tests_unit_test_algo_SOURCES = tests/unit/test_algo.c
tests_unit_test_algo_LDADD = libweftcore.la $(CUNIT_LIBS) $(JANSSON_LIBS) -lm
unit_tests += tests/unit/test_algo_adds
tests_unit_test_algo_adds_SOURCES = tests/unit/test_algo_adds.c
tests_unit_test_algo_adds_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_hier
tests_unit_test_hier_SOURCES = tests/unit/test_hier.c
tests_unit_test_hier_LDADD = libweftcore.la $(CUNIT_LIBS) $(JANSSON_LIBS) -lm
unit_tests += tests/unit/test_base tests/unit/test_settings
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_settings_SOURCES = tests/unit/test_settings.c
tests_unit_test_settings_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_security
tests_unit_test_security_SOURCES = tests/unit/test_security.c
tests_unit_test_security_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_struct_prefix
tests_unit_test_struct_prefix_SOURCES = tests/unit/test_struct_prefix.c tests/unit/struct_rows.h
tests_unit_test_struct_prefix_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_workers
tests_unit_test_workers_SOURCES = tests/unit/test_workers.c
tests_unit_test_workers_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_thread
tests_unit_test_thread_SOURCES = tests/unit/test_thread.c
tests_unit_test_thread_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread

unit_tests += tests/unit/test_process
tests_unit_test_process_SOURCES = tests/unit/test_process.c
tests_unit_test_process_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_pool
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c
tests_unit_test_pool_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread

unit_tests += tests/golden/golden
tests_golden_golden_SOURCES = tests/golden/golden.c
tests_golden_golden_LDADD = libweftcore.la $(CUNIT_LIBS) $(JANSSON_LIBS)
EXTRA_DIST += \
	tests/golden/all_gather_bruck.txt \
	tests/golden/all_gather_coded.txt tests/golden/all_reduce_coded.txt tests/golden/all_reduce_coded2.txt \
	tests/golden/all_to_all_coded.txt tests/golden/reduce_scatter_coded.txt \
	tests/golden/all_reduce_node_coded2.txt \
	tests/golden/broadcast_coded.txt \
	tests/golden/broadcast_coded_chain.txt \
	tests/golden/reduce_scatter_node_coded.txt \
	tests/golden/broadcast_node_leader.txt \
	tests/golden/all_reduce_node_ring.txt \
	tests/golden/all_gather_node_bruck.txt \
	tests/golden/all_to_all_node_leader.txt \
	tests/golden/all_to_all_v_node_pairwise.txt \
	tests/golden/reduce_scatter_pat.txt \
	tests/golden/reduce_scatter_bine.txt \
	tests/golden/reduce_bine.txt \
	tests/golden/broadcast_bine.txt \
	tests/golden/broadcast_split.txt \
	tests/golden/all_reduce_swing_short.txt \
	tests/golden/all_reduce_swing.txt \
	tests/golden/all_gather_pat.txt \
	tests/golden/all_gather_bine.txt \
	tests/golden/all_gather_neighbor.txt \
	tests/golden/all_reduce_dbtree.txt \
	tests/golden/all_reduce_direct.txt \
	tests/golden/all_reduce_flat.txt \
	tests/golden/all_reduce_flat2.txt \
	tests/golden/all_reduce_flat_send.txt \
	tests/golden/all_reduce_pull.txt \
	tests/golden/all_reduce_rdouble.txt \
	tests/golden/all_reduce_rhalving.txt \
	tests/golden/all_reduce_ring.txt \
	tests/golden/all_reduce_ring2.txt \
	tests/golden/all_to_all_bruck.txt \
	tests/golden/barrier_dissem.txt \
	tests/golden/broadcast_knomial.txt \
	tests/golden/broadcast_scatter_ring.txt \
	tests/golden/exscan_rdouble.txt \
	tests/golden/gather_knomial.txt \
	tests/golden/reduce_chain.txt \
	tests/golden/reduce_rsgather.txt \
	tests/golden/reduce_scatter_rhalving.txt \
	tests/golden/scan_rdouble.txt

# Built with the tests, run by hand.
test_programs += tests/bench/bench_reduce
tests_bench_bench_reduce_SOURCES = tests/bench/bench_reduce.c
tests_bench_bench_reduce_LDADD = libweftcore.la
test_programs += tests/bench/bench_codec
tests_bench_bench_codec_SOURCES = tests/bench/bench_codec.c
tests_bench_bench_codec_LDADD = libweftcore.la -lm

unit_tests += tests/unit/test_channel_rma
tests_unit_test_channel_rma_SOURCES = tests/unit/test_channel_rma.c
tests_unit_test_channel_rma_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_rma
tests_unit_test_rma_SOURCES = tests/unit/test_rma.c
tests_unit_test_rma_LDADD = libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_side
tests_unit_test_side_SOURCES = tests/unit/test_side.c tests/unit/side_world.h
tests_unit_test_side_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_side_crowd
tests_unit_test_side_crowd_SOURCES = tests/unit/test_side_crowd.c
tests_unit_test_side_crowd_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_auth tests/unit/test_bootstrap
tests_unit_test_auth_SOURCES = tests/unit/test_auth.c
tests_unit_test_auth_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_bootstrap_SOURCES = tests/unit/test_bootstrap.c
tests_unit_test_bootstrap_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_bootstrap_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_bootstrap_keys
tests_unit_test_bootstrap_keys_SOURCES = tests/unit/test_bootstrap_keys.c
tests_unit_test_bootstrap_keys_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_bootstrap_keys_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_held_ports
tests_unit_test_held_ports_SOURCES = tests/unit/test_held_ports.c
tests_unit_test_held_ports_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_held_ports_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread

unit_tests += tests/unit/test_bootstrap_changed
tests_unit_test_bootstrap_changed_SOURCES = tests/unit/test_bootstrap_changed.c
tests_unit_test_bootstrap_changed_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_bootstrap_changed_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_store
tests_unit_test_store_SOURCES = tests/unit/test_store.c
tests_unit_test_store_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_store_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_bootstrap_links
tests_unit_test_bootstrap_links_SOURCES = tests/unit/test_bootstrap_links.c
tests_unit_test_bootstrap_links_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_bootstrap_links_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_mesh_routes
tests_unit_test_mesh_routes_SOURCES = tests/unit/test_mesh_routes.c
tests_unit_test_mesh_routes_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_join_accept
tests_unit_test_join_accept_SOURCES = tests/unit/test_join_accept.c
tests_unit_test_join_accept_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_join_accept_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_job_key
tests_unit_test_job_key_SOURCES = tests/unit/test_job_key.c
tests_unit_test_job_key_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_job_key_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_devices
tests_unit_test_devices_SOURCES = tests/unit/test_devices.c
tests_unit_test_devices_LDADD = libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_coded
tests_unit_test_coded_SOURCES = tests/unit/test_coded.c tests/exec/varied.h tests/exec/varied.c
tests_unit_test_coded_LDADD = libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_codec
tests_unit_test_codec_SOURCES = tests/unit/test_codec.c tests/unit/isa_cases.h tests/unit/random_data.h
tests_unit_test_codec_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_codec_formats
tests_unit_test_codec_formats_SOURCES = tests/unit/test_codec_formats.c
tests_unit_test_codec_formats_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_codec_linear
tests_unit_test_codec_linear_SOURCES = tests/unit/test_codec_linear.c tests/unit/isa_cases.h tests/unit/random_data.h
tests_unit_test_codec_linear_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_codec_conform
tests_unit_test_codec_conform_SOURCES = tests/unit/test_codec_conform.c tests/unit/isa_cases.h tests/unit/random_data.h
tests_unit_test_codec_conform_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_sparse
tests_unit_test_sparse_SOURCES = tests/unit/test_sparse.c
tests_unit_test_sparse_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_autotune
tests_unit_test_autotune_SOURCES = tests/unit/test_autotune.c
tests_unit_test_autotune_LDADD = libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_slots
tests_unit_test_slots_SOURCES = tests/unit/test_slots.c
tests_unit_test_slots_LDADD = libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/unit/test_sim
tests_unit_test_sim_SOURCES = tests/unit/test_sim.c tests/unit/sim_common.h
tests_unit_test_sim_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
# Algorithms from files; the inputs are written when the test runs.
unit_tests += tests/unit/test_import
tests_unit_test_import_SOURCES = tests/unit/test_import.c
tests_unit_test_import_LDADD = libweftcore.la $(CUNIT_LIBS)
EXTRA_DIST += tests/import/generate.py
unit_tests += tests/unit/test_sim_cost
tests_unit_test_sim_cost_SOURCES = tests/unit/test_sim_cost.c tests/unit/sim_common.h
tests_unit_test_sim_cost_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

unit_tests += tests/unit/test_topology tests/unit/test_topology_model
tests_unit_test_topology_SOURCES = tests/unit/test_topology.c
tests_unit_test_topology_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
tests_unit_test_topology_model_SOURCES = tests/unit/test_topology_model.c
tests_unit_test_topology_model_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
EXTRA_DIST += tests/topology

unit_tests += tests/unit/test_plan
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c
tests_unit_test_plan_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_plan_rates
tests_unit_test_plan_rates_SOURCES = tests/unit/test_plan_rates.c
tests_unit_test_plan_rates_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

unit_tests += tests/unit/test_levels
tests_unit_test_levels_SOURCES = tests/unit/test_levels.c
tests_unit_test_levels_LDADD = libweftcore.la $(CUNIT_LIBS) -lm

unit_tests += tests/unit/test_plan_events
tests_unit_test_plan_events_SOURCES = tests/unit/hosts_model.h tests/unit/hosts_model.c tests/unit/test_plan_events.c
tests_unit_test_plan_events_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_paired
tests_unit_test_paired_SOURCES = tests/unit/test_paired.c
tests_unit_test_paired_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_grid
tests_unit_test_grid_SOURCES = tests/unit/test_grid.c
tests_unit_test_grid_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
unit_tests += tests/unit/test_parse_memory tests/unit/test_file
tests_unit_test_parse_memory_SOURCES = tests/unit/test_parse_memory.c
tests_unit_test_parse_memory_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_unit_test_file_SOURCES = tests/unit/test_file.c
tests_unit_test_file_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_manager
tests_unit_test_manager_SOURCES = tests/unit/test_manager.c
tests_unit_test_manager_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_manager_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread

unit_tests += tests/unit/test_pmi
tests_unit_test_pmi_SOURCES = tests/unit/test_pmi.c
tests_unit_test_pmi_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_unit_test_pmi_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread
unit_tests += tests/unit/test_rendezvous
tests_unit_test_rendezvous_SOURCES = tests/unit/test_rendezvous.c
tests_unit_test_rendezvous_LDADD = libweftcore.la $(CUNIT_LIBS)
unit_tests += tests/unit/test_pipeline
tests_unit_test_pipeline_SOURCES = tests/unit/test_pipeline.c
tests_unit_test_pipeline_LDADD = libweftcore.la $(CUNIT_LIBS) -lm
