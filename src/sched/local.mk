libweft_sources += \
	src/sched/build.c \
	src/sched/cells.c \
	src/sched/form.c \
	src/sched/internal.h \
	src/sched/sched.h \
	src/sched/seal.c \
	src/sched/stats.c \
	src/sched/step_names.c
