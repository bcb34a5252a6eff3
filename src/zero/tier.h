/* SPDX-License-Identifier: BSD-3-Clause */
/* Which units have their weights and moments in the file, and which in memory: they move between steps, as the file was waited for
 * and as memory allows it. doc/guide/zero.md */
#ifndef WI_ZERO_TIER_H
#define WI_ZERO_TIER_H

#include "zero/zero.h"

/* What a unit's flats have in memory instead of in the file. */
struct wi_zero_held {
    char *memory; /* NULL: it is in the file, or never there */
    size_t bytes; /* that it takes; 0: nothing of it has a place in the file */
};

struct wi_zero_tier {
    struct wi_zero_held *units;
    size_t all, held, limit;    /* bytes that have a place in the file; of those in memory; that may be there */
    uint64_t taken, given, move_ns; /* units moved into memory, and back; how long that took */
    int pause;                  /* steps without a move into memory that are left */
    char *pressure;             /* path of the file that says how long this process's group has waited for memory; NULL: none */
    uint64_t pressure_us, pressure_ns; /* what it said; when */
};

weft_status wi_zero_tier_create(weft_zero *zero); /* after the file */
void wi_zero_tier_destroy(weft_zero *zero);

/* A step has been made, in whose update the file was waited for so long. */
weft_status wi_zero_tier_follow(weft_zero *zero, uint64_t update_ns, uint64_t stall_ns);
void wi_zero_tier_stats(const weft_zero *zero, weft_zero_stats *stats);

#endif
