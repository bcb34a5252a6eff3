/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator: the schedules of all ranks, run by events against a model of the machine, with no network.
 *
 * What a rank does is what the executor does (src/exec): lanes run at the same time, the steps of a lane in order, each step
 * slice by slice (mapped schedules: each slice program by program); sends are posted without waiting; matching is first in,
 * first out per (peer, chan); a step that would overwrite what a pending send still reads waits for it.
 * What it takes:
 *   message   send_us of the sender's core; then its bytes flow through the resources of the path, the messages of one
 *             channel one after the other; the latency; recv_us of the receiver's core when it is that message's turn.
 *   local     bytes copied / copy rate, bytes reduced beyond the first operand / reduce rate, on the rank's core, also through
 *             the memories of the regions' ranks.
 *   core      one for each rank: overheads and local work of all lanes queue for it in the order in which they ask.
 *   mapped    a row of waits ends the model's mapped_us after the last signal that it needs, or after it began.
 *   resource  shared by the flows that use it, max-min fair: recomputed for the connected component of a change (progressive
 *             filling; Bertsekas and Gallager, Data Networks, 1992, 6.5.2).
 * Times are microseconds from the start of the collective. The result is a function of the arguments only.
 */
#ifndef WI_SIM_SIM_H
#define WI_SIM_SIM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sched/sched.h"
#include "topology/model.h"

/* Past this many messages and local pieces a simulation is refused: use the cost functions. */
#define WI_SIM_MAX_UNITS 400000000ull
#define WI_SIM_MAX_SPANS (1u << 26)
#define WI_SIM_SLOT_BYTES (128u << 10)
#define WI_SIM_NSLOTS 8u
#define WI_SIM_NONE UINT32_MAX

struct wi_sim_options {
    size_t slice_bytes;        /* blocks are cut like this; 0: not at all */
    size_t elem_bytes;         /* blocks are whole elements; 0: 4 where that divides the bytes, else 1 */
    size_t slot_bytes;         /* room of a mapped group's slot, which holds a slice's scratch; 0: WI_SIM_SLOT_BYTES */
    uint32_t nslots;           /* of a mapped group: slices that may be in flight; 0: WI_SIM_NSLOTS */
    const double *start_us;    /* [nranks] when each rank begins; NULL: at 0 */
    const double *core_factor; /* [nranks] 2: this rank's core takes twice as long; NULL: 1 */
    const double *link_factor; /* [nresources] 0.5: half of the rate, 0: failed; NULL: 1 */
    int record;                /* keep spans: for time lines and the critical path */
};

/* X(name, text) */
#define WI_SIM_SPAN_LIST(X)                                                                        \
    X(SEND, "send")     /* overhead on the sender's core */                                        \
    X(WIRE, "wire")     /* bytes through the path, then the latency */                             \
    X(RECV, "recv")     /* overhead on the receiver's core */                                      \
    X(REDUCE, "reduce") /* also of a received message, with its overhead */                        \
    X(COPY, "copy")                                                                                \
    X(WAIT, "wait")     /* for signals */

enum wi_sim_span_kind {
#define WI_SIM_SPAN_ENUM(name, text) WI_SIM_##name,
    WI_SIM_SPAN_LIST(WI_SIM_SPAN_ENUM)
#undef WI_SIM_SPAN_ENUM
        WI_SIM_NUM_SPANS
};
const char *wi_sim_span_name(unsigned kind);

struct wi_sim_span {
    double start, end;
    double drained;       /* WIRE: when the last byte had left; the rest is latency */
    uint64_t bytes;
    int32_t rank, peer;   /* WIRE: from, to; RECV: to, from */
    uint32_t lane, step, slice;
    uint32_t cause;       /* the span whose end let this one begin; WI_SIM_NONE: the start */
    uint32_t resource;    /* what limited its rate in the end; WI_SIM_NONE */
    uint8_t kind;
};

struct wi_sim_use {
    double bytes;   /* that passed */
    double busy_us; /* time with at least one flow */
};

struct wi_sim_result {
    int nranks;
    double finish_us;            /* of the last rank */
    double *rank_us;             /* [nranks] */
    uint32_t *rank_last;         /* [nranks] span that let the rank finish; WI_SIM_NONE */
    uint32_t nresources;
    struct wi_sim_use *use;      /* [nresources] */
    uint64_t nmessages, nevents;
    struct wi_sim_span *spans;
    uint32_t nspans;
};

/* `bytes`: of the vector, or of one rank's share. WEFT_EINVAL: the schedules do not fit together, or deadlock (the text names
 * rank, lane and step); WEFT_EPEER: a failed link keeps ranks from finishing (it names link and ranks); WEFT_ENOTSUP: too many
 * units. */
weft_status wi_sim_run(const struct wi_sched *const scheds[], int nranks, size_t bytes, const struct wi_model *model,
                       const struct wi_sim_options *options, struct wi_sim_result **result);
void wi_sim_result_free(struct wi_sim_result *result);

/* ---- Reports: of a recorded run ---- */

/* The critical path, last span first: what the last rank to finish waited for, and so on. Returns how many there are; writes at
 * most `max`. */
uint32_t wi_sim_critical(const struct wi_sim_result *result, uint32_t *spans, uint32_t max);
/* One line of text for a span. */
void wi_sim_span_text(const struct wi_model *model, const struct wi_sim_span *span, char *text, size_t capacity);
/* A row of characters for each rank, `columns` wide. */
weft_status wi_sim_timeline(const struct wi_sim_result *result, int columns, FILE *out);
/* Chrome's trace event format, which Perfetto reads: one process for each rank, one track for each lane and one for its core. */
weft_status wi_sim_perfetto(const struct wi_sim_result *result, const struct wi_model *model, const char *title,
                            FILE *out);

#endif
