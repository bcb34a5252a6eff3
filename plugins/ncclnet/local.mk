# SPDX-License-Identifier: BSD-3-Clause
# Messages over network plugins that were made for NCCL. nodelete: plugins that it loads stay, and so do their call-backs.
ncclnet_sources = plugins/ncclnet/abi.h plugins/ncclnet/adapt.c plugins/ncclnet/data.c plugins/ncclnet/devices.c \
	plugins/ncclnet/gone.c plugins/ncclnet/group.c plugins/ncclnet/load.c plugins/ncclnet/match.c plugins/ncclnet/memory.c \
	plugins/ncclnet/ncclnet.c plugins/ncclnet/ncclnet.h plugins/ncclnet/packet.c plugins/ncclnet/pair.c
plugin_LTLIBRARIES += ncclnet.la
ncclnet_la_SOURCES = $(ncclnet_sources)
ncclnet_la_LDFLAGS = $(AM_LDFLAGS) $(plugin_ldflags) -Wl,-z,nodelete
ncclnet_la_LIBADD = -lpthread
