/* SPDX-License-Identifier: BSD-3-Clause */
/* Small schedules, right by construction, that the tests of src/sched share. */
#ifndef SCHED_SAMPLES_H
#define SCHED_SAMPLES_H

#include "sched/sched.h"

/* Writes the steps of one rank. */
typedef void (*sample_fn)(struct wi_sched_builder *b, const struct wi_sched_spec *spec);

struct sample {
    const char *name;
    enum wi_coll coll;
    sample_fn write;
    uint32_t (*nblocks)(int nranks);
    uint32_t (*tmp_blocks)(int nranks);
    unsigned flags; /* SAMPLE_* */
};
#define SAMPLE_ORDERED 1u   /* keeps rank order */
#define SAMPLE_IN_PLACE 2u  /* also right in place */
#define SAMPLE_ROOTS 4u     /* any root */
#define SAMPLE_PAIRS 8u     /* two ranks at least */
#define SAMPLE_MAPPED 16u

extern const struct sample samples[];
extern const unsigned nsamples;

const struct sample *sample_find(const char *name);
weft_status sample_build(const struct sample *sample, int rank, int nranks, int root, int in_place,
                         struct wi_sched **sched);
/* All ranks; `scheds` holds nranks entries, each to be put, also on failure (then NULL). */
weft_status sample_build_all(const struct sample *sample, int nranks, int root, int in_place,
                             struct wi_sched **scheds);
void samples_put(struct wi_sched **scheds, int nranks);

#endif
