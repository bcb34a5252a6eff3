# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	compress/codec.c compress/codec.h compress/codec_spec.c compress/convert.c \
	compress/kernels.h compress/kernels_loops.h \
	compress/kernels_any.c compress/kernels_avx2.c compress/kernels_avx512.c
