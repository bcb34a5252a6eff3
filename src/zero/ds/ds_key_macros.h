/* SPDX-License-Identifier: BSD-3-Clause */
/* Short forms of rows of the table of keys: path, what becomes of it, range or words, default, sentence, and what few rows have. */
#ifndef WI_ZERO_DS_KEY_MACROS_H
#define WI_ZERO_DS_KEY_MACROS_H

#include "zero/ds/ds.h"

#define WORKS WI_DS_WORKS
#define FIXED WI_DS_FIXED
#define IGNORED WI_DS_IGNORED
#define REFUSED WI_DS_REFUSED
#define MANY 9e15 /* integers up to 2^53 are exact */
#define BIG 1e300
#define BOUND(path_, type_, what_, least_, most_, fallback_, text_, ...)                                               \
    {                                                                                                                  \
        .path = path_, .type = type_, .what = what_, .least = least_, .most = most_, .fallback = fallback_,            \
        .text = text_, ##__VA_ARGS__                                                                                   \
    }
#define ROW(path, type, what, fallback, text, ...) BOUND(path, type, what, -BIG, BIG, fallback, text, ##__VA_ARGS__)
#define B(path, what, fallback, text, ...) ROW(path, WI_DS_BOOL, what, fallback, text, ##__VA_ARGS__)
#define I(path, what, least, most, fallback, text, ...) BOUND(path, WI_DS_INT, what, least, most, fallback, text, ##__VA_ARGS__)
#define N(path, what, least, most, fallback, text, ...) BOUND(path, WI_DS_NUMBER, what, least, most, fallback, text, ##__VA_ARGS__)
#define T(path, what, fallback, text, ...) ROW(path, WI_DS_TEXT, what, fallback, text, ##__VA_ARGS__)
#define W(path, what, any, fallback, text, ...) ROW(path, WI_DS_WORD, what, fallback, text, .words = any, ##__VA_ARGS__)
#define A(path, what, fallback, text, ...) ROW(path, WI_DS_ANY, what, fallback, text, ##__VA_ARGS__)
#define S(path, what, text, ...) ROW(path, WI_DS_OBJECT, what, NULL, text, ##__VA_ARGS__)
#define OLD(path, today) ROW(path, WI_DS_ANY, WI_DS_RENAMED, NULL, "An old spelling.", .words = today)

#endif
