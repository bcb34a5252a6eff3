# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += plugins/tcp/addr.c plugins/tcp/addr.h plugins/tcp/chan.c plugins/tcp/conn.c plugins/tcp/dial.c \
	plugins/tcp/endpoint.c plugins/tcp/frame.c plugins/tcp/frame.h plugins/tcp/group.c plugins/tcp/handshake.c \
	plugins/tcp/linger.c plugins/tcp/listen.c plugins/tcp/match.c plugins/tcp/peer.c plugins/tcp/self.c \
	plugins/tcp/tcp.c plugins/tcp/tcp.h
