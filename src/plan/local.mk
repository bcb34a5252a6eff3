libweft_sources += src/plan/plan.c src/plan/plan.h
