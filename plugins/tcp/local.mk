# SPDX-License-Identifier: BSD-3-Clause
tcp_sources = plugins/tcp/addr.c plugins/tcp/addr.h plugins/tcp/chan.c plugins/tcp/conn.c plugins/tcp/dial.c \
	plugins/tcp/endpoint.c plugins/tcp/fds.c plugins/tcp/fds.h plugins/tcp/frame.c plugins/tcp/frame.h plugins/tcp/group.c plugins/tcp/handshake.c \
	plugins/tcp/linger.c plugins/tcp/listen.c plugins/tcp/match.c plugins/tcp/mux.c plugins/tcp/mux.h plugins/tcp/peer.c plugins/tcp/process.c plugins/tcp/rails.c plugins/tcp/reserve.c \
	plugins/tcp/self.c plugins/tcp/serve.c plugins/tcp/share.c plugins/tcp/spread.c plugins/tcp/stream.c \
	plugins/tcp/tcp.c plugins/tcp/tcp.h plugins/tcp/wake.c
libweft_sources += $(tcp_sources)

unit_tests += tests/unit/test_tcp_wire tests/conform/tcp_link tests/conform/tcp_shared tests/conform/tcp_refused
tests_unit_test_tcp_wire_SOURCES = tests/unit/test_tcp_wire.c
tests_unit_test_tcp_wire_LDADD = libweftcore.la $(CUNIT_LIBS)
tests_conform_tcp_link_SOURCES = tests/conform/tcp_link.c tests/conform/tcp_world.h tests/conform/tcp_host.h
tests_conform_tcp_link_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread
tests_conform_tcp_shared_SOURCES = tests/conform/tcp_shared.c tests/conform/tcp_world.h tests/conform/tcp_host.h
tests_conform_tcp_shared_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread
tests_conform_tcp_refused_SOURCES = tests/conform/tcp_refused.c tests/conform/tcp_world.h tests/conform/tcp_host.h
tests_conform_tcp_refused_LDADD = libweftcore.la $(CUNIT_LIBS) -lpthread
EXTRA_DIST += tests/fuzz/fuzz_tcp_frames.c

multi_tests += tests/conform/transport_tcp
tests_conform_transport_tcp_SOURCES = tests/conform/transport_tcp.c $(transport_suite)
tests_conform_transport_tcp_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
