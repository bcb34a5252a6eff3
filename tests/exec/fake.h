/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport under a test's control: all ranks in one process, messages and arenas in plain memory. What happens when is drawn
 * from a seed, within what the comments of struct weft_transport_ops allow:
 *   - a message is taken from its buffer when it is posted or only when the receive is there, and its send stays pending
 *     for a while after that;
 *   - messages of different channels overtake each other; one comes in pieces, down to one element;
 *   - a receive's buffer is overwritten with other bytes when it is posted.
 * It also judges: a buffer that is changed while it is sent or received into, stores outside arenas, messages that nobody
 * receives. */
#ifndef TESTS_EXEC_FAKE_H
#define TESTS_EXEC_FAKE_H

#include <weft/weft_plugin.h>

struct fake;

struct fake_knobs {
    uint64_t seed;
    int mapped;
    uint32_t depth, ll_depth, ll_lines; /* of the arenas, with which: */
    size_t slot_bytes;
    uint8_t eager;  /* of 4: how many messages are taken when they are posted */
    uint8_t late;   /* of 8: how likely a send that is through stays pending once more */
    uint8_t lazy;   /* of 8: how likely a receive gets nothing this time */
    uint8_t pieces; /* messages come in pieces */
};

struct fake *fake_create(int nranks, const struct fake_knobs *knobs);
void fake_destroy(struct fake *f);
void *fake_group(struct fake *f, int rank);
extern const struct weft_transport_ops fake_ops;
/* Called where a rank sleeps; `arg`: as given, and which rank. NULL: no rank may sleep. */
void fake_on_sleep(struct fake *f, void (*sleep)(void *arg, int rank), void *arg);
/* At the end: NULL, or what went wrong. `ended`: all operations have, so nothing may be left. */
const char *fake_judge(struct fake *f, int ended);
/* [0, below) */
uint32_t fake_random(uint64_t *rng, uint32_t below);

/* What was seen, so that a test can tell that its case occurs. */
struct fake_seen {
    uint64_t messages, sinks, pieces, late, up_to, waited; /* waited: receives that came before their message */
    uint64_t gets, puts, sleeps;
};
const struct fake_seen *fake_seen(const struct fake *f);

#endif
