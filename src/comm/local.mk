libweft_sources += \
	src/comm/batch.c src/comm/batch.h src/comm/call.c src/comm/check.c src/comm/codec.c src/comm/collectives.c src/comm/comm.h src/comm/complete.c src/comm/compress.c \
	src/comm/context.c src/comm/create.c src/comm/derive.c src/comm/descriptor.c src/comm/exchange.c src/comm/fast.c src/comm/fork.c \
	src/comm/group.c src/comm/inspect.c src/comm/issue.c src/comm/layout.c src/comm/layout_stages.c src/comm/memory.c src/comm/message.c src/comm/names.c \
	src/comm/linear.c src/comm/linear.h src/comm/locality.c src/comm/operators.c src/comm/peers.c src/comm/phases.c \
	src/comm/plans.c src/comm/plans.h src/comm/pool.c src/comm/served.c src/comm/progress.c \
	src/comm/request.c src/comm/residual.c src/comm/residual.h src/comm/residual_place.c src/comm/residual_state.c src/comm/topology.c
