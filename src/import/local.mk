# SPDX-License-Identifier: BSD-3-Clause
# Plans of other libraries, read, proved and made into schedules.
libweft_sources += \
	src/import/import.c \
	src/import/import.h \
	src/import/import_deep.c \
	src/import/import_lower.c \
	src/import/import_lower.h \
	src/import/import_merge.c \
	src/import/import_msccl.c \
	src/import/import_mscclpp.c \
	src/import/import_plan.h \
	src/import/import_plan_events.c \
	src/import/import_plan_ops.c \
	src/import/import_program.c \
	src/import/import_program.h \
	src/import/import_scratch.c
