/* SPDX-License-Identifier: BSD-3-Clause */
/* X(id, name): the parameters that a codec's text may have besides the codec's own. They are of the call (struct wi_codec_use):
 * what encodes outside of one, weft_codec_encode, does not take them. A codec's own parameter of the same name comes first (clip of
 * terngrad); plugins may have none. Needs nothing else of the library, so that tools can have it. */
#ifndef WI_COMPRESS_CALL_PARAMETERS_H
#define WI_COMPRESS_CALL_PARAMETERS_H

#define WI_CODEC_CALL_LIST(X)                        \
    X(EF, "ef") X(BYPASS, "bypass") X(MIN, "min")    \
    X(BETA, "beta") X(MOMENTUM, "momentum")          \
    X(WARMUP, "warmup") X(CLIP, "clip")              \
    X(MASKING, "masking")

#endif
