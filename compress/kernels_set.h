/* SPDX-License-Identifier: BSD-3-Clause */
/* All kernels of one instruction set. Included once by each kernels_<isa>.c, which defines WI_CODEC_ISA and
 * WI_SHARED_ISA, the names of its tables. */
#include "compress/kernels_loops.h"

#include "compress/kernels_blocks.h"

#include "compress/kernels_mini.h"

#include "compress/kernels_random.h"

#include "compress/kernels_quant.h"

#include "compress/kernels_natural.h"

#include "compress/kernels_shared.h"

#define ENTRY(name)                                                 \
    {                                                               \
        name##_encode, name##_decode, name##_sum, name##_sum_encode \
    }
const struct wi_codec_kernels WI_CODEC_ISA[WI_KERNELS] = {
    [WI_KERNELS_INT8] = ENTRY(int8),
    [WI_KERNELS_INT6] = ENTRY(int6),
    [WI_KERNELS_INT4] = ENTRY(int4),
    [WI_KERNELS_INT2] = ENTRY(int2),
    [WI_KERNELS_SIGN] = ENTRY(sign),
    [WI_KERNELS_BF16] = ENTRY(bf16),
    [WI_KERNELS_FP16] = ENTRY(fp16),
    [WI_KERNELS_E4M3] = ENTRY(e4m3),
    [WI_KERNELS_E5M2] = ENTRY(e5m2),
    [WI_KERNELS_MX_E4M3] = ENTRY(mx_e4m3),
    [WI_KERNELS_MX_E5M2] = ENTRY(mx_e5m2),
    [WI_KERNELS_MX_E2M3] = ENTRY(mx_e2m3),
    [WI_KERNELS_MX_E3M2] = ENTRY(mx_e3m2),
    [WI_KERNELS_MX_E2M1] = ENTRY(mx_e2m1),
    [WI_KERNELS_QUANT] = ENTRY(quant),
    [WI_KERNELS_NATURAL] = ENTRY(natural),
    [WI_KERNELS_MEANS] = ENTRY(means),
    [WI_KERNELS_SHARED] = ENTRY(shared),
};
const struct wi_shared_kernels WI_SHARED_ISA = {shared_propose, shared_project, shared_expand};
