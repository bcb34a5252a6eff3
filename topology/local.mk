# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	topology/graph.c topology/graph.h \
	topology/graph_check.c \
	topology/graph_internal.h \
	topology/model.c topology/model.h \
	topology/model_internal.h \
	topology/model_levels.c \
	topology/model_net.c \
	topology/model_path.c \
	topology/model_seats.c \
	topology/model_topo.c \
	topology/route.c \
	topology/synthetic.c topology/synthetic.h \
	topology/synthetic_parse.c \
	topology/typical.h
