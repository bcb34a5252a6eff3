# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	topology/graph.h \
	topology/model.c topology/model.h
