# The transport suite. Each program runs all of it over one transport.
transport_suite = tests/conform/transport.h tests/conform/transport_main.h tests/conform/transport.c \
	tests/conform/transport_messages.c tests/conform/transport_mapped.c \
	tests/conform/transport_memory.c tests/conform/transport_faults.c

unit_tests += tests/conform/transport_inproc tests/conform/transport_shm
tests_conform_transport_inproc_SOURCES = tests/conform/transport_inproc.c $(transport_suite)
tests_conform_transport_inproc_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
tests_conform_transport_shm_SOURCES = tests/conform/transport_shm.c $(transport_suite)
tests_conform_transport_shm_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
