libweft_sources += \
	src/sched/build.c \
	src/sched/cells.c \
	src/sched/check.c \
	src/sched/check_access.c \
	src/sched/check_clock.c \
	src/sched/check_internal.h \
	src/sched/check_match.c \
	src/sched/check_run.c \
	src/sched/check_value.c \
	src/sched/compose.c \
	src/sched/compose.h \
	src/sched/compose_part.c \
	src/sched/compose_part.h \
	src/sched/export.c \
	src/sched/form.c \
	src/sched/internal.h \
	src/sched/parse.c \
	src/sched/parse.h \
	src/sched/parse_stage.c \
	src/sched/parse_words.c \
	src/sched/print.c \
	src/sched/sched.h \
	src/sched/seal.c \
	src/sched/stats.c \
	src/sched/step_names.c
