# SPDX-License-Identifier: BSD-3-Clause
# Transport over UCX, where its headers are. The library is loaded at run time.
ucx_plugin = plugins/ucx/ucx.h plugins/ucx/library.h plugins/ucx/library.c plugins/ucx/endpoint.c plugins/ucx/keeper.c \
	plugins/ucx/link.c plugins/ucx/connect.c plugins/ucx/group.c plugins/ucx/peer.c plugins/ucx/send.c \
	plugins/ucx/recv.c plugins/ucx/ucx.c
EXTRA_DIST += $(ucx_plugin)
if HAVE_UCX
plugin_LTLIBRARIES += ucx.la
ucx_la_SOURCES = $(ucx_plugin)
ucx_la_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
# UCX keeps a function of the plugin's, for its messages, and stays itself.
ucx_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -Wl,-z,nodelete
ucx_la_LIBADD = -ldl -lpthread

unit_tests += tests/conform/transport_ucx
tests_conform_transport_ucx_SOURCES = tests/conform/transport_ucx.c $(ucx_plugin) $(transport_suite)
tests_conform_transport_ucx_CFLAGS = $(AM_CFLAGS) $(UCX_CFLAGS)
tests_conform_transport_ucx_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
endif
