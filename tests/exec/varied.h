/* SPDX-License-Identifier: BSD-3-Clause */
/* A codec of a variable rate for the executor's tests, "varied": it drops about half of the elements, by a bit of each, and sends
 * the upper halves of the others. What an element becomes depends on nothing but the element, so that a vector has the same
 * values however it is cut into images. */
#ifndef WT_VARIED_H
#define WT_VARIED_H

/* Let wi_codec_parse know it. 0, or -1. */
int varied_register(void);

#endif
