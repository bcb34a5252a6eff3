# SPDX-License-Identifier: BSD-3-Clause
# InfiniBand and RoCE, where libibverbs is.
verbs_sources = plugins/verbs/verbs.c plugins/verbs/verbs.h plugins/verbs/cards.c plugins/verbs/connect.c plugins/verbs/fork.c \
	plugins/verbs/gid.c plugins/verbs/group.c plugins/verbs/group.h plugins/verbs/key.h plugins/verbs/memory.c plugins/verbs/message.c \
	plugins/verbs/ports.c plugins/verbs/progress.c plugins/verbs/queue.c plugins/verbs/queue.h plugins/verbs/rails.c plugins/verbs/rma.c \
	plugins/verbs/self.c plugins/verbs/watch.c plugins/verbs/watch.h
EXTRA_DIST += $(verbs_sources)
if HAVE_VERBS
plugin_LTLIBRARIES += verbs.la
verbs_la_SOURCES = $(verbs_sources)
verbs_la_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
verbs_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags)
verbs_la_LIBADD = $(VERBS_LIBS) -lpthread

unit_tests += tests/unit/test_verbs_ports
tests_unit_test_verbs_ports_SOURCES = tests/unit/test_verbs_ports.c plugins/verbs/ports.c plugins/verbs/gid.c plugins/verbs/fork.c \
	plugins/verbs/verbs.h
tests_unit_test_verbs_ports_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_unit_test_verbs_ports_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)

# They run in a virtual machine, by the scripts below.
test_programs += tests/conform/transport_verbs tests/conform/transport_verbs_long tests/conform/verbs_speed \
	tests/multi/verbs_ranks tests/multi/verbs_peers
tests_conform_transport_verbs_SOURCES = tests/conform/transport_verbs.c $(verbs_sources) $(transport_suite)
tests_conform_transport_verbs_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_conform_transport_verbs_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(VERBS_LIBS)
tests_conform_transport_verbs_long_SOURCES = tests/conform/transport_verbs_long.c $(verbs_sources) $(transport_suite)
tests_conform_transport_verbs_long_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_conform_transport_verbs_long_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(VERBS_LIBS)
tests_conform_verbs_speed_SOURCES = tests/conform/verbs_speed.c tests/conform/transport.h tests/conform/transport.c \
	tests/conform/transport_side.h tests/conform/transport_side.c $(verbs_sources)
tests_conform_verbs_speed_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_conform_verbs_speed_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(VERBS_LIBS)
tests_multi_verbs_peers_SOURCES = tests/multi/verbs_peers.c $(verbs_sources)
tests_multi_verbs_peers_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_multi_verbs_peers_LDADD = libweftcore.la $(VERBS_LIBS)
tests_multi_verbs_ranks_SOURCES = tests/multi/verbs_ranks.c
tests_multi_verbs_ranks_LDADD = libweftcore.la
endif
multi_scripts += tests/multi/test_verbs.sh
long_scripts += tests/multi/test_verbs_long.sh
EXTRA_DIST += tests/conform/transport_verbs.c
EXTRA_DIST += tests/multi/verbs_inside.sh
