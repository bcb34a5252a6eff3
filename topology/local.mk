# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	topology/export.c \
	topology/export_internal.h \
	topology/export_svg.c \
	topology/export_text.c \
	topology/graph.c \
	topology/graph.h \
	topology/graph_check.c \
	topology/graph_internal.h \
	topology/import.c \
	topology/import_json.c \
	topology/import_xml.c \
	topology/merge.c \
	topology/model.c \
	topology/model.h \
	topology/model_internal.h \
	topology/model_levels.c \
	topology/model_net.c \
	topology/model_path.c \
	topology/model_seats.c \
	topology/model_topo.c \
	topology/pack.c \
	topology/placement.c \
	topology/placement.h \
	topology/read_cores.c \
	topology/read_host.c \
	topology/read_internal.h \
	topology/read_network.c \
	topology/read_nvlink.c \
	topology/read_pci.c \
	topology/ring_order.c \
	topology/rings.c \
	topology/route.c \
	topology/synthetic.c \
	topology/synthetic.h \
	topology/synthetic_parse.c \
	topology/typical.h
