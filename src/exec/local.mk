libweft_sources += \
	src/exec/exec.c src/exec/exec.h src/exec/op.h src/exec/run.c src/exec/recorder.h src/exec/autotune.h \
	src/exec/signal.h src/exec/fail.c src/exec/nudge.c src/exec/nudge.h src/exec/wait.c src/exec/match.c src/exec/match.h src/exec/put.c \
	src/exec/lower.c src/exec/lower.h src/exec/address.h src/exec/lane.c src/exec/transfer.c src/exec/transfer.h \
	src/exec/coded.c src/exec/coded.h src/exec/coded_part.h src/exec/feedback.c \
	src/exec/local.c src/exec/ll.c src/exec/ll.h src/exec/alone.c src/exec/packed.c \
	src/exec/engine.c src/exec/engine.h src/exec/workers.c src/exec/gate.c src/exec/rma.c src/exec/rma.h \
	src/exec/label.c src/exec/label.h
