# weft-bench uses the installed headers, and a list of words of compress/, only. Its MPI modules are loaded at run time, and are not plugins of the library:
# they have a directory of their own.
bin_PROGRAMS += weft-bench
weft_bench_SOURCES = tools/tool.h tools/weft_bench.c tools/weft_bench.h tools/bench_rule.h \
	tools/bench_buffers.c tools/bench_codec.c tools/bench_data.c tools/bench_extra.c tools/bench_files.c tools/bench_help.c \
	tools/bench_layout.c tools/bench_measure.c tools/bench_mpi.c tools/bench_options.c tools/bench_overlap.c tools/bench_beside.c \
	tools/bench_parse.c tools/bench_plot.c tools/bench_report.c tools/bench_run.c tools/bench_weft.c
weft_bench_CPPFLAGS = $(AM_CPPFLAGS) -DBENCH_MODULE_DIR='"$(benchmoduledir)"'
weft_bench_LDADD = libweft.la

benchmoduledir = $(libdir)/weft-bench
benchmodule_LTLIBRARIES =
bench_module_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared
if HAVE_OPENMPI
benchmodule_LTLIBRARIES += bench_mpi_openmpi.la
bench_mpi_openmpi_la_SOURCES = tools/bench_mpi_module.c
bench_mpi_openmpi_la_CPPFLAGS = -I$(top_srcdir)/include $(OPENMPI_CFLAGS) -DBENCH_MPI_LIBRARY='"libmpi.so.40"'
bench_mpi_openmpi_la_LDFLAGS = $(bench_module_ldflags)
endif
if HAVE_MPICH
benchmodule_LTLIBRARIES += bench_mpi_mpich.la
bench_mpi_mpich_la_SOURCES = tools/bench_mpi_module.c
bench_mpi_mpich_la_CPPFLAGS = -I$(top_srcdir)/include $(MPICH_CFLAGS) -DBENCH_MPI_LIBRARY='"libmpich.so.12"'
bench_mpi_mpich_la_LDFLAGS = $(bench_module_ldflags)
endif

# The comparison runs from the source tree: it compiles its peers' programs itself.
EXTRA_DIST += tools/weft-compare tools/compare_run.py tools/compare_hosts.py tools/compare_gloo.py \
	tools/compare_mpi.c tools/compare_pingpong.c tools/compare_triad.c \
	tools/compare_placement.c tools/compare_versions.py tools/compare_codecs.py tools/compare_ddp.py tools/compare_torch.py

bin_PROGRAMS += weft-info
weft_info_SOURCES = tools/tool.h tools/weft_info.c tools/info_peers.c tools/info_peers.h tools/info_peers_groups.c tools/info_peers_print.c
weft_info_LDADD = libweftcore.la $(HWLOC_LIBS) $(JANSSON_LIBS)

# Reads schedules, touches no network.
bin_PROGRAMS += weft-plan
weft_plan_SOURCES = tools/tool.h tools/tool_plugins.h tools/weft_plan.c tools/weft_plan.h tools/plan_check.c tools/plan_explain.c \
	tools/plan_explain.h tools/plan_print.c tools/plan_stages.c tools/plan_world.c
weft_plan_LDADD = libweftcore.la $(JANSSON_LIBS)

check_scripts += tests/cli/test_weft_info.sh tests/cli/test_weft_plan.sh
multi_scripts += tests/cli/test_weft_bench.sh tests/cli/test_weft_compare.py

dist_man_MANS += doc/man/weft-bench.1 doc/man/weft-info.1 doc/man/weft-compare.1 doc/man/weft-run.1 doc/man/weft-plan.1

# One machine only: public headers, hwloc and libc.
bin_PROGRAMS += weft-run
weft_run_SOURCES = tools/tool.h tools/weft_run.c tools/weft_run.h tools/weft_run_bind.c tools/weft_run_key.c tools/weft_run_spawn.c \
	tools/weft_run_watch.c
weft_run_LDADD = $(HWLOC_LIBS)

multi_scripts += tests/cli/test_weft_run.sh
test_programs += tests/cli/bootstrap_probe
tests_cli_bootstrap_probe_SOURCES = tests/cli/bootstrap_probe.c
tests_cli_bootstrap_probe_LDADD = libweftcore.la

# Looks inside the library, but never at the network.
bin_PROGRAMS += weft-topo
weft_topo_SOURCES = tools/tool.h tools/weft_topo.c tools/topo_tool.h tools/topo_ranks.c tools/topo_sources.c
weft_topo_LDADD = libweftcore.la
check_scripts += tests/cli/test_weft_topo.sh
dist_man_MANS += doc/man/weft-topo.1

# What predicts links with the whole library statically: its insides are what it shows.
bin_PROGRAMS += weft-sim
weft_sim_SOURCES = tools/tool.h tools/weft_sim.c tools/weft_sim.h tools/sim_call.c tools/sim_options.c tools/sim_print.c \
	tools/sim_script.c tools/sim_script.h tools/sim_step.c tools/sim_world.c
weft_sim_LDADD = libweftcore.la $(JANSSON_LIBS) -lm
check_scripts += tests/cli/test_weft_sim.sh
dist_man_MANS += doc/man/weft-sim.1

# Measures by the public interface, predicts by src/plan.
bin_PROGRAMS += weft-tune
weft_tune_SOURCES = tools/tool.h tools/weft_tune.c tools/weft_tune.h tools/tune_colls.c tools/tune_links.c tools/tune_nodes.c \
	tools/tune_check.c tools/tune_options.c tools/tune_plot.c tools/tune_points.c tools/tune_rates.c tools/tune_report.c \
	tools/tune_subjects.c tools/tune_summary.c
weft_tune_LDADD = libweftcore.la -lm
multi_scripts += tests/cli/test_weft_tune.sh
dist_man_MANS += doc/man/weft-tune.1

# Codecs by the public interface, on generated data and on files of tensors.
bin_PROGRAMS += weft-codec
weft_codec_SOURCES = tools/tool.h tools/tool_plugins.h tools/weft_codec.c tools/weft_codec.h tools/codec_data.c tools/codec_error.c tools/codec_file.c \
	tools/codec_npy.c tools/codec_options.c tools/codec_options.h tools/codec_plot.c tools/codec_print.c tools/codec_safetensors.c \
	tools/codec_speed.c
weft_codec_LDADD = libweft.la $(JANSSON_LIBS) -lm -lpthread
check_scripts += tests/cli/test_weft_codec.sh
dist_man_MANS += doc/man/weft-codec.1
