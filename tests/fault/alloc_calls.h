/* The calls whose allocations test_alloc has fail, each with what must come of it.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FT_ALLOC_CALLS_H
#define FT_ALLOC_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum { AC_RANKS = 3, AC_FEW = 42, AC_MANY = 60000 }; /* elements; divisible by AC_RANKS */

struct ac_rank {
    weft_context *context;
    weft_comm *comm;
    int rank;
    uint64_t timeout_ns; /* of calls that make communicators */
};

/* Where a call is tried: over shm and over tcp; over shm, as it needs memory that can be shared; over both with rank 1 on a
 * "host" of its own. */
enum ac_where { AC_ANYWHERE, AC_ONE_HOST, AC_TWO_HOSTS };

struct ac_call {
    const char *name;
    weft_status (*call)(const struct ac_rank *on, size_t n);
    size_t (*wrong)(int rank, size_t n); /* elements of the result; NULL: it has none */
    enum ac_where where;
    const char *algo; /* WEFT_ALGO, or NULL */
};
/* All; the first one is an all_reduce of int64. */
extern const struct ac_call ac_calls[];
extern const int ac_ncalls;

/* What the rank gives, and results that are none. */
void ac_fill(int rank);
/* Elements of what the rank gave that are not any more as they were. */
size_t ac_spoilt(int rank);

#endif
