/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of codecs' parameters: from text, and as text. */
#ifndef WI_COMPRESS_CODEC_VALUE_H
#define WI_COMPRESS_CODEC_VALUE_H

#include <weft/weft_plugin.h>

/* WEFT_EINVAL with text ("codec SPEC: NAME is ..."): what is allowed. */
weft_status wi_codec_value_parse(const char *spec, const struct weft_codec_parameter *row, const char *text,
                                 union weft_codec_value *value);
/* Into text, which wi_codec_value_parse reads: the same value. */
void wi_codec_value_print(const struct weft_codec_parameter *row, union weft_codec_value value, char *text,
                          size_t capacity);

#endif
