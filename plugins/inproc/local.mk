libweft_sources += plugins/inproc/inproc.c plugins/inproc/inproc.h
