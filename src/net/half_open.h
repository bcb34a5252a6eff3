/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that have not proven the job's key yet, and which of them gives way when there are too many.
 *
 * One whose hello was made with the key is evicted last: when no other is there, after it has had 200 ms for its next message, the
 * oldest first, or that of a source with half of the table. (Its hello may be a replay by a process that
 * cannot go on.) One source (an IPv4 address, an IPv6 network of
 * 64 bits, a user of this host) holds at most half of a table: beyond that its newcomers take the place of its own oldest. The tcp
 * transport, which as a plugin cannot include this, has the same rule in its listen.c, where connections that have proved the key
 * stay: its hellos name the process that they are for. */
#ifndef WI_NET_HALF_OPEN_H
#define WI_NET_HALF_OPEN_H

#include <stdint.h>

struct wi_half_open {
    uint64_t source, since_ns;
    int hello_verified; /* it was made with the key */
};
void wi_half_open_begin(struct wi_half_open *h, int fd, uint64_t now_ns);

/* Show every connection of the table to `look`, then ask. */
struct wi_half_open_table {
    uint64_t source; /* of the newcomer */
    int capacity;
    uint64_t now_ns; /* from here on: found by looking */
    int held, of_source, nverified_of_source;
    uint64_t since_ns, since_of_source_ns, since_verified_ns, since_verified_of_source_ns;
    void *oldest, *oldest_of_source; /* without a verified hello */
    void *verified, *verified_of_source; /* the oldest with one */
};
void wi_half_open_look(struct wi_half_open_table *t, const struct wi_half_open *h, void *connection);
/* 0: there is room, or there is once *give_way (NULL: none) is closed. -1: no room; all hellos are verified, and none is old. */
int wi_half_open_decide(const struct wi_half_open_table *t, void **give_way);

/* Connections that may be accepted in one go: what is accepted last must not drive out, unread, what was accepted first. */
static inline int wi_half_open_burst(int capacity)
{
    return capacity > 130 ? 64 : capacity > 3 ? capacity / 2 - 1 : 1;
}

#endif
