# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	src/plan/candidates.c \
	src/plan/codec.c \
	src/plan/pipeline.c src/plan/pipeline.h \
	src/plan/pipeline_stages.c \
	src/plan/correct.c \
	src/plan/cost.c \
	src/plan/cost_forms.c \
	src/plan/linear.c \
	src/plan/link_params.c src/plan/link_params.h \
	src/plan/core_rates.c \
	src/plan/internal.h \
	src/plan/levels.c \
	src/plan/machine.c \
	src/plan/override.c \
	src/plan/paired.c src/plan/paired.h \
	src/plan/pattern.c \
	src/plan/plan.c src/plan/plan.h \
	src/plan/uplinks.c \
	src/plan/table.c src/plan/table.h \
	src/plan/table_parse.c \
	src/plan/table_write.c
