# SPDX-License-Identifier: BSD-3-Clause
# A network plugin as NCCL loads them, for tests of plugins/ncclnet: all versions, one of them, none, and a table with a hole.
nccl_net_sample = tests/ncclnet/sample.c tests/ncclnet/sample.h tests/ncclnet/sample_versions.c plugins/ncclnet/abi.h
test_modules += libnccl-net-weftsample.la libnccl-net-weftsample8.la libnccl-net-weftnone.la libnccl-net-weftlacks.la
libnccl_net_weftsample_la_SOURCES = $(nccl_net_sample)
libnccl_net_weftsample_la_LDFLAGS = $(self_la_LDFLAGS)
libnccl_net_weftsample8_la_SOURCES = $(nccl_net_sample)
libnccl_net_weftsample8_la_CPPFLAGS = $(AM_CPPFLAGS) -DSAMPLE_ONLY=8 -DSAMPLE_UNNAMED
libnccl_net_weftsample8_la_LDFLAGS = $(self_la_LDFLAGS)
libnccl_net_weftnone_la_SOURCES = $(nccl_net_sample)
libnccl_net_weftnone_la_CPPFLAGS = $(AM_CPPFLAGS) -DSAMPLE_ONLY=0
libnccl_net_weftnone_la_LDFLAGS = $(self_la_LDFLAGS)
libnccl_net_weftlacks_la_SOURCES = $(nccl_net_sample)
libnccl_net_weftlacks_la_CPPFLAGS = $(AM_CPPFLAGS) -DSAMPLE_ONLY=0 -DSAMPLE_LACKS
libnccl_net_weftlacks_la_LDFLAGS = $(self_la_LDFLAGS)

multi_tests += tests/conform/transport_ncclnet
tests_conform_transport_ncclnet_SOURCES = tests/conform/transport_ncclnet.c $(ncclnet_sources) $(transport_suite)
tests_conform_transport_ncclnet_CPPFLAGS = $(AM_CPPFLAGS)
tests_conform_transport_ncclnet_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS) -lpthread

unit_tests += tests/ncclnet/test_abi
tests_ncclnet_test_abi_SOURCES = tests/ncclnet/test_abi.c plugins/ncclnet/abi.h
tests_ncclnet_test_abi_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_tests += tests/ncclnet/test_ncclnet
tests_ncclnet_test_ncclnet_SOURCES = tests/ncclnet/test_ncclnet.c tests/fault/fault.h
tests_ncclnet_test_ncclnet_LDADD = libharness.la libweftcore.la $(CUNIT_LIBS)
multi_scripts += tests/ncclnet/test_ncclnet_paths.sh
