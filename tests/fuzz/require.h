/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold, whatever the input says. Where it does not, the line and the condition are printed before the end: of many calls
 * of abort() in one function a compiler makes one, and a stack tells them apart no more. */
#ifndef WEFT_TESTS_FUZZ_REQUIRE_H
#define WEFT_TESTS_FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
