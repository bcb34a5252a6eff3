libweft_sources += \
	src/exec/exec.c src/exec/exec.h src/exec/run.c src/exec/recorder.h src/exec/slot_store.h src/exec/signal.h \
	src/exec/fail.c src/exec/wait.c src/exec/match.c src/exec/match.h src/exec/put.c \
	src/exec/lane_mapped.c src/exec/lane_ll.c src/exec/straight.c src/exec/straight.h src/exec/lane_two_sided.c \
	src/exec/lane_parcel.c
