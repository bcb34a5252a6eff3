# The transport suite. Each program runs all of it over one transport.
transport_suite = tests/conform/transport.h tests/conform/transport_main.h tests/conform/transport.c \
	tests/conform/transport_side.h tests/conform/transport_side.c \
	tests/conform/transport_messages.c tests/conform/transport_mapped.c \
	tests/conform/transport_memory.c tests/conform/transport_rma.c tests/conform/transport_faults.c

unit_tests += tests/conform/transport_inproc tests/conform/transport_shm
tests_conform_transport_inproc_SOURCES = tests/conform/transport_inproc.c $(transport_suite)
tests_conform_transport_inproc_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_conform_transport_shm_SOURCES = tests/conform/transport_shm.c $(transport_suite)
tests_conform_transport_shm_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)

unit_tests += tests/conform/transport_fake
fake_rdma = tests/conform/fake_rdma.c tests/conform/fake_rdma.h tests/conform/fake_rdma_get.c tests/conform/fake_rdma_pair.c \
	tests/conform/fake_rdma_arena.c
tests_conform_transport_fake_SOURCES = tests/conform/transport_fake.c $(fake_rdma) $(transport_suite)
tests_conform_transport_fake_CPPFLAGS = $(AM_CPPFLAGS)
tests_conform_transport_fake_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
test_modules += fakerdma.la
test_modules += fakecard.la
fakecard_la_SOURCES = $(fake_rdma)
fakecard_la_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_MAPPED
fakecard_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -rpath $(plugindir)
fakerdma_la_SOURCES = $(fake_rdma)
fakerdma_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -rpath $(plugindir)

# A fast network that only some ranks have, between processes: TCP under another name. Tests of which transport serves which pair load it.
test_modules += fakenet.la
fakenet_la_SOURCES = tests/conform/fake_net.c $(tcp_sources)
fakenet_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -rpath $(plugindir)

# What members of a group can do to each other over shared memory when one of them lies.
unit_tests += tests/conform/shm_hostile
tests_conform_shm_hostile_SOURCES = tests/conform/shm_hostile.c tests/conform/transport.h tests/conform/transport.c \
	tests/conform/transport_side.h tests/conform/transport_side.c
tests_conform_shm_hostile_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)

# The suite of collectives over every transport: a sample, and all of it.
collectives_suite = tests/conform/collect.h tests/conform/collect_data.c tests/conform/collect_call.c \
	tests/conform/collect_world.c tests/conform/collectives.h tests/conform/collectives_cases.c \
	tests/conform/collectives_bits.c tests/conform/collectives_levels.c tests/conform/collectives_suite.c \
	tests/harness/late.h tests/harness/late.c
multi_tests += tests/conform/collectives
tests_conform_collectives_SOURCES = tests/conform/collectives.c $(collectives_suite)
tests_conform_collectives_LDADD = libharness.la libweftcore.la -lm
long_tests += tests/conform/collectives_long
tests_conform_collectives_long_SOURCES = tests/conform/collectives_long.c $(collectives_suite)
tests_conform_collectives_long_LDADD = libharness.la libweftcore.la -lm

# Messages of one transport, for tests/bench/bench_ucx.py and its like.
test_programs += tests/bench/bench_transport
tests_bench_bench_transport_SOURCES = tests/bench/bench_transport.c tests/conform/transport.h tests/conform/transport.c \
	tests/conform/transport_side.h tests/conform/transport_side.c
tests_bench_bench_transport_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
EXTRA_DIST += tests/bench/bench_ucx.py
