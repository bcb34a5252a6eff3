# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	src/net/accept_pause.c src/net/accept_pause.h \
	src/net/auth.c src/net/auth.h \
	src/net/auth_mac.c src/net/auth_mac.h \
	src/net/auth_seen.c src/net/auth_seen.h \
	src/net/bootstrap.c src/net/bootstrap.h \
	src/net/bootstrap_env.c \
	src/net/bootstrap_file.c \
	src/net/bootstrap_id.c src/net/bootstrap_id.h \
	src/net/bootstrap_join.c \
	src/net/bootstrap_key.c src/net/bootstrap_key.h \
	src/net/bootstrap_mesh.c src/net/bootstrap_mesh.h \
	src/net/bootstrap_oob.c \
	src/net/env.c src/net/env.h \
	src/net/env_cluster.c \
	src/net/half_open.c src/net/half_open.h \
	src/net/local_key.c src/net/local_key.h \
	src/net/manager.c src/net/manager.h \
	src/net/manager_pmi.c \
	src/net/node_id.c \
	src/net/pmi.c src/net/pmi.h \
	src/net/rendezvous.c src/net/rendezvous.h \
	src/net/rendezvous_local.c \
	src/net/rendezvous_socket.c \
	src/net/socket_fork.c \
	src/net/store.c src/net/store.h \
	src/net/store_client.c src/net/store_client.h \
	src/net/store_server.c src/net/store_server.h \
	src/net/store_wire.c src/net/store_wire.h

libweft_sources += \
	src/net/channel.c src/net/channel.h \
	src/net/channel_group.h \
	src/net/channel_memory.c \
	src/net/channel_peer.c \
	src/net/channel_recv.c \
	src/net/channel_rma.c \
	src/net/channel_send.c \
	src/net/devices.c src/net/devices.h \
	src/net/mesh.c src/net/mesh.h \
	src/net/mesh_intro.c src/net/mesh_intro.h \
	src/net/mesh_routes.c src/net/mesh_routes.h \
	src/net/mesh_report.c src/net/mesh_report.h \
	src/net/mesh_side.c src/net/mesh_side.h \
	src/net/side.c src/net/side.h \
	src/net/side_address.c \
	src/net/side_conn.c src/net/side_conn.h \
	src/net/side_exchange.c src/net/side_exchange.h \
	src/net/side_group.c \
	src/net/transport_stubs.c \
	src/net/transports.c src/net/transports.h \
	src/net/transports_refused.c src/net/transports_refused.h
