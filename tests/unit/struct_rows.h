/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of the public API, by every length that a program of another version may pass. */
#ifndef WT_STRUCT_ROWS_H
#define WT_STRUCT_ROWS_H

#include <stddef.h>
#include <string.h>
#include <weft/weft.h>

#include "unit.h"

#define WT_STRUCT_EXTRA 16
/* A field that is added at the end must not lie where older callers have padding. */
#define ENDS_AT(type, last) (sizeof(type) == offsetof(type, last) + sizeof(((type *)0)->last))

struct wt_struct_row {
    const char *name;
    const void *init;
    size_t bytes, least; /* through the last field that has no default */
    int result;          /* the library fills it */
    weft_status (*use)(void *given);
};

static inline void wt_struct_expect(const struct wt_struct_row *r, void *given, size_t bytes, weft_status want)
{
    weft_status st;

    memcpy(given, &bytes, sizeof bytes);
    st = r->use(given);
    if (st != want)
        printf("# %s of %zu bytes: %s: %s\n", r->name, bytes, weft_status_name(st), weft_thread_error());
    CU_ASSERT_EQUAL(st, want);
    if (want == WEFT_ENOTSUP)
        CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), r->name));
}

/* Behind a shorter struct stands what is no part of it: it must be neither read nor written. */
static inline void wt_struct_every_length(const struct wt_struct_row *r)
{
    unsigned char given[1024] __attribute__((aligned(16)));

    for (size_t bytes = 0; bytes <= r->bytes + WT_STRUCT_EXTRA; bytes++) {
        size_t known = bytes < r->bytes ? bytes : r->bytes;
        memset(given, 0xa5, sizeof given);
        memcpy(given, r->init, known < sizeof bytes ? sizeof bytes : known);
        if (bytes > r->bytes)
            memset(given + r->bytes, 0, bytes - r->bytes);
        wt_struct_expect(r, given, bytes, bytes >= r->least && bytes % 8 == 0 ? WEFT_SUCCESS : WEFT_EINVAL);
        for (size_t i = bytes < 8 ? 8 : bytes; i < sizeof given; i++)
            if (given[i] != 0xa5 && bytes < r->bytes)
                CU_FAIL("written behind the end");
    }
    memcpy(given, r->init, r->bytes);
    memset(given + r->bytes, 0, WT_STRUCT_EXTRA);
    given[r->bytes + WT_STRUCT_EXTRA - 1] = 1;
    wt_struct_expect(r, given, r->bytes + WT_STRUCT_EXTRA, r->result ? WEFT_SUCCESS : WEFT_ENOTSUP);
    CU_ASSERT_EQUAL(given[r->bytes + WT_STRUCT_EXTRA - 1], 1);
}

#endif
