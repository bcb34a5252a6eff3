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

test_programs += tests/conform/transport_verbs
tests_conform_transport_verbs_SOURCES = tests/conform/transport_verbs.c $(verbs_sources) $(transport_suite)
tests_conform_transport_verbs_CFLAGS = $(AM_CFLAGS) $(VERBS_CFLAGS)
tests_conform_transport_verbs_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) $(VERBS_LIBS)
endif
