/* SPDX-License-Identifier: BSD-3-Clause */
/* X(name): the codecs that are linked in, each defined as wi_codec_<name> by the file of its family. In the order in which they are
 * listed to users. */
#ifndef WI_COMPRESS_BUILT_IN_H
#define WI_COMPRESS_BUILT_IN_H

#include <weft/weft_plugin.h>

#define WI_CODEC_LIST(X)                    \
    X(int8) X(int6) X(int4) X(int2) X(sign) \
    X(bf16) X(fp16) X(e4m3) X(e5m2)         \
    X(mxfp8) X(mxfp6) X(mxfp4)              \
    X(qsgd) X(terngrad) X(natural)          \
    X(sharedint)                            \
    X(topk) X(blocktopk) X(leaderk) X(randomk)

#define WI_CODEC_DECLARE(name) extern const struct weft_plugin wi_codec_##name;
WI_CODEC_LIST(WI_CODEC_DECLARE)
#undef WI_CODEC_DECLARE

#endif
