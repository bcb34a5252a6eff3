/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective call of all ranks: arguments, memory, and what the plain interpreter makes of it. */
#ifndef TESTS_EXEC_CALL_H
#define TESTS_EXEC_CALL_H

#include "comm/comm.h"
#include "plain.h"

#define MAX_RANKS 16

/* The schedules of one algorithm for one number of ranks, root and form. */
struct form {
    enum wi_coll coll; /* which may be a v-form of what the algorithm is for */
    char name[WI_ALGO_SPEC_BYTES];
    unsigned needs;
    int nranks, root, in_place, packed;
    int32_t group[MAX_RANKS]; /* staged: which ranks share memory */
    struct wi_sched *sched[MAX_RANKS];
    struct wi_sched *beside[MAX_RANKS]; /* packed: of the operation that carries the long parts */
};
int form_is_v(const struct form *f);
int form_is_mapped(const struct form *f);
int form_is_staged(const struct form *f);
int form_may_add(const struct form *f);
void form_text(const struct form *f, char *text, size_t capacity);
void form_put(struct form *f);

/* How large a call's data is. */
enum size {
    SIZE_ELEMENTS, /* blocks of one to three elements, some of them empty */
    SIZE_LINE,     /* up to 100 bytes */
    SIZE_LINES,    /* up to 700 bytes */
    SIZE_EVEN,     /* a multiple of 64 bytes */
    SIZE_PAGE,     /* from 4 KiB, where vectors are cut at cache lines */
    SIZE_LONG,     /* from 16 KiB */
    NUM_SIZES,
    SIZE_HUGE = NUM_SIZES /* some 2.3 MiB in all: more than is stored to, or put to, another rank in one go */
};

struct memory {
    unsigned char *real, *plain;
    size_t bytes;
};

struct call;
struct call_rank {
    const struct call *call;
    int rank;
    struct wi_call args;
    size_t counts[2][MAX_RANKS], displs[2][MAX_RANKS]; /* sent, received */
    struct memory memory[2];                           /* SRC, DST; in place one of them holds both */
    int in[2];                                         /* which memory SRC, DST are in, and where */
    size_t at[2];
    struct plain_place *place[2];
    float *residual[2][2]; /* coded, with feedback: of the executor, of the plain interpreter; NULL: none */
    struct wi_op op[2]; /* the second one if it is packed */
};

struct call {
    const struct form *form;
    weft_dtype dtype;
    size_t elem_bytes, count; /* of the vector or of every share; v-forms: of the largest */
    enum plain_op op;
    int adds;                /* the result is added to what DST holds */
    struct weft_codec codec; /* of forms whose messages are coded; block 0: none */
    int feedback;
    int number;
    struct call_rank rank[MAX_RANKS];
};

/* Drawn from a seed: counts, memory with guards around it, contents. `like`: sometimes as many elements, of that type, as in that
 * call, so that what was lowered for it may serve; NULL: there is none. NULL: no memory. */
struct call *call_create(const struct form *form, int number, enum size size, const struct call *like, uint64_t *rng);
void call_destroy(struct call *c);
static inline unsigned char *call_base(const struct call_rank *k, int buf, int plain)
{
    const struct memory *m = &k->memory[k->in[buf]];
    return (plain ? m->plain : m->real) + k->at[buf];
}
/* Fill memory.plain. NULL, or what is wrong. */
const char *call_interpret(struct call *c);
/* NULL: both memories hold the same bytes, those around the data included. Else where they differ. */
const char *call_compare(const struct call *c);
/* Before the executor has run: NULL: memory.plain holds the results that the collective is defined to have (PLAIN_MIX: none).
 * Else where it does not. */
const char *call_defined(const struct call *c);

#endif
