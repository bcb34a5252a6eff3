# SPDX-License-Identifier: BSD-3-Clause
base_sources += \
	src/base/alloc.c src/base/alloc.h \
	src/base/bytes.c src/base/bytes.h \
	src/base/clock.c src/base/clock.h \
	src/base/fds.c src/base/fds.h \
	src/base/file.c src/base/file.h \
	src/base/hash.c src/base/hash.h \
	src/base/log.c src/base/log.h \
	src/base/names.c \
	src/base/process.c src/base/process.h \
	src/base/reduce.c src/base/reduce.h src/base/reduce_kernels.h \
	src/base/convert.c \
	src/base/crc32c.c src/base/crc32c.h \
	src/base/rates.c src/base/rates.h \
	src/base/reduce_avx2.c \
	src/base/reduce_avx512.c \
	src/base/reduce_complex.c \
	src/base/reduce_copy.h \
	src/base/reduce_divide.c \
	src/base/reduce_family.h \
	src/base/reduce_isa.c \
	src/base/reduce_neon.c \
	src/base/reduce_raw.h \
	src/base/reduce_scalar.c \
	src/base/reduce_simd.h \
	src/base/secret.c src/base/secret.h \
	src/base/settings.c src/base/settings.h \
	src/base/settings_file.c \
	src/base/settings_given.c src/base/settings_given.h \
	src/base/settings_parse.c \
	src/base/status.c src/base/status.h \
	src/base/struct_prefix.c src/base/struct_prefix.h \
	src/base/text.c src/base/text.h \
	src/base/thread.c src/base/thread.h \
	src/base/trusted_path.c src/base/trusted_path.h
