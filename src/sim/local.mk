# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	src/sim/cost.h src/sim/sim_cost.c \
	src/sim/engine.h \
	src/sim/sim.c src/sim/sim.h \
	src/sim/sim_cut.c \
	src/sim/sim_explain.c \
	src/sim/sim_flows.c \
	src/sim/sim_lanes.c \
	src/sim/sim_queue.c \
	src/sim/sim_report.c \
	src/sim/sim_work.c
