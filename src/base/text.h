/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that others wrote: peers, files, the environment. */
#ifndef WI_BASE_TEXT_H
#define WI_BASE_TEXT_H

#include <stddef.h>

/* Ends the text within its field of `capacity` bytes, and replaces control characters by spaces: they could forge a line of a log,
 * or move a terminal's cursor. */
void wi_text_sanitize(char *text, size_t capacity);

/* Single-character edits between two names; 99 for very long ones. */
size_t wi_text_distance(const char *a, const char *b);

#endif
