# SPDX-License-Identifier: BSD-3-Clause
libweft_sources += \
	compress/codec.c compress/codec.h compress/codec_list.c compress/built_in.h compress/call_parameters.h \
	compress/codec_spec.c compress/codec_value.c compress/codec_value.h compress/feedback.h \
	compress/convert.c compress/scratch.c compress/scratch.h \
	compress/int.c compress/sign.c compress/cast.c compress/fp8.c compress/mx.c \
	compress/qsgd.c compress/natural.c compress/sharedint.c \
	compress/kernels.c compress/kernels.h compress/kernels_set.h \
	compress/kernels_loops.h compress/kernels_eight.h compress/kernels_blocks.h compress/kernels_mini.h \
	compress/kernels_random.h compress/kernels_quant.h compress/kernels_natural.h compress/kernels_shared.h \
	compress/kernels_any.c compress/kernels_avx2.c compress/kernels_avx512.c \
	compress/select.c compress/select.h compress/select_avx2.c compress/select_avx512.c \
	compress/index_set.c compress/index_set.h \
	compress/sparse.c compress/sparse.h compress/sparse_ops.h compress/sparse_choose.c compress/sparse_linear.c compress/sparse_values.c \
	compress/topk.c
