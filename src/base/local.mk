# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	src/base/alloc.c src/base/alloc.h \
	src/base/clock.c src/base/clock.h \
	src/base/hash.c src/base/hash.h \
	src/base/log.c src/base/log.h \
	src/base/names.c \
	src/base/settings.c src/base/settings.h \
	src/base/settings_file.c \
	src/base/settings_given.c src/base/settings_given.h \
	src/base/settings_parse.c \
	src/base/status.c src/base/status.h
