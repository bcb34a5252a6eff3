/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: the command line. */
#ifndef CODEC_OPTIONS_H
#define CODEC_OPTIONS_H

#include "weft_codec.h"

/* 0; 1, and said: codecs of plugins cannot be had. */
int codec_load_plugins(void);
/* -1: go on, arguments begin at optind; else the exit status. */
int codec_parse_options(struct codec_options *o, int argc, char **argv);

#endif
