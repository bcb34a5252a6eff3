/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulator's files share: lanes, cores, flows, the queue of events. All indices; WI_SIM_NONE: none. */
#ifndef WI_SIM_ENGINE_H
#define WI_SIM_ENGINE_H

#include "sim/sim.h"

/* ---- Events, least time first, then in the order in which they were made ---- */
enum wi_sim_event_kind { WI_SIM_AT_START, WI_SIM_AT_DRAINED, WI_SIM_AT_ARRIVAL, WI_SIM_AT_CORE, WI_SIM_AT_WAITED };

struct wi_sim_event {
    double time;
    uint64_t order;
    uint32_t id; /* START: rank; DRAINED: flow; ARRIVAL: message; CORE: rank; WAITED: lane */
    uint32_t kind;
};

/* ---- Flows: bytes on their way through resources ---- */
struct wi_sim_edge { /* one flow on one resource */
    uint32_t flow, resource;
    uint32_t next;               /* of the flow; also of free edges */
    uint32_t after, before;      /* of the resource */
    double weight;               /* units of the resource for each unit of the flow */
};

struct wi_sim_flow {
    double left, rate, since; /* units, as of `since` */
    double total, cap;        /* cap: no faster than this */
    uint32_t edges;           /* also the next free flow */
    uint32_t at;              /* in the event queue */
    uint32_t limit;           /* resource that gave the rate; WI_SIM_NONE: cap */
    uint32_t owner;           /* lane: message on its wire; rank: work of its core */
    uint32_t mark;
    uint8_t is_work, frozen;
};

struct wi_sim_resource {
    double rate, used, busy, busy_since;
    double left, weight; /* while shares are computed */
    uint32_t edges, nedges, active;
    uint32_t mark;
    uint8_t dirty;
};

/* ---- Ranks and lanes ---- */
struct wi_sim_message {
    uint32_t lane;               /* sender's */
    uint32_t next;               /* on the wire or in the inbox; also of free messages */
    uint32_t after, before;      /* of the sending rank's pending ones */
    uint32_t span, cause;
    uint32_t step, slice;
    uint32_t buf;
    uint64_t from, bytes;        /* where it reads */
};

enum wi_sim_phase {
    WI_SIM_ENTER,   /* the unit has not begun */
    WI_SIM_SENDING, /* its send has the core */
    WI_SIM_TAKING,  /* its message has the core */
    WI_SIM_LOCAL,   /* its local work has the core */
};

enum wi_sim_block {
    WI_SIM_READY,
    WI_SIM_ON_START,
    WI_SIM_ON_LANE,  /* a dependency, or a signal */
    WI_SIM_ON_INBOX,
    WI_SIM_ON_DRAIN, /* what it would overwrite is being sent */
    WI_SIM_ON_CORE,
    WI_SIM_ON_WAIT,  /* mapped_us */
    WI_SIM_ON_GATE,  /* a slot to be free */
    WI_SIM_OVER,
};

struct wi_sim_lane {
    uint32_t rank, index;
    uint32_t step, slice, piece;
    uint8_t phase, block, ended;
    uint32_t cause;              /* span that let it go on */
    uint32_t next;               /* of the list that it is in */
    uint32_t waiters;            /* lanes that wait for this one */
    uint32_t to, from;           /* the other side's lane */
    uint32_t path;               /* of sends */
    uint32_t wire, wire_tail, inbox, inbox_tail;
    uint32_t flow;               /* of the wire's head */
    uint32_t nsending;
    uint64_t bytes;              /* of the unit */
    uint64_t signalled;          /* slice * (WI_SCHED_MAX_SIGNALS + 1) + signals given in it */
    /* What it asks of its core. */
    double over_us;
    uint64_t work;
    double asked_at;
    uint8_t span_kind, work_kind;
};

struct wi_sim_rank {
    const struct wi_sched *sched;
    uint32_t first_lane, nlanes_left;
    uint32_t core, queue, queue_tail; /* lanes: that has the core, that want it */
    double core_since;
    uint8_t core_working;             /* past the overhead, in the flow through memory */
    uint8_t overwrites;               /* some step stores into a buffer that some step sends from */
    uint32_t pending, drain_waiters;
    uint32_t slices_done;
    double start, finish, slow;
    uint32_t last;
};

struct wi_sim {
    const struct wi_sched *const *scheds;
    const struct wi_model *model;
    struct wi_sim_options options;
    int nranks;
    int mapped, send_empty;
    uint64_t block_bytes, total_bytes, slice_bytes;
    uint32_t nslices;
    double now;
    weft_status status; /* latched */

    struct wi_sim_event *heap;
    uint32_t nheap, heap_capacity;
    uint64_t order, nevents;

    struct wi_sim_resource *resources;
    uint32_t nresources;
    uint32_t *dirty, ndirty;
    uint32_t mark;
    struct wi_sim_edge *edges;
    uint32_t nedges, edge_capacity, free_edge;
    struct wi_sim_flow *flows;
    uint32_t nflows, flow_capacity, free_flow;
    uint32_t *component, component_capacity; /* flows of a component, */
    uint32_t *component_resources;           /* its resources, [nresources] */
    struct wi_sim_share {
        double share;
        uint32_t resource;
    } *shares;                            /* a heap, [nresources] */

    struct wi_sim_message *messages;
    uint32_t nmessages, message_capacity, free_message;
    uint64_t messages_sent;

    struct wi_model_path *paths;
    uint32_t npaths, path_capacity;

    struct wi_sim_rank *ranks;
    struct wi_sim_lane *lanes;
    uint32_t nlanes, ready, ready_tail;
    uint32_t gate_waiters, slices_over;   /* slices that all ranks are done with */
    uint32_t *slice_ranks;                /* [nslices] ranks that are done with it */
    uint32_t ranks_left;

    struct wi_sim_span *spans;
    uint32_t nspans, span_capacity;
};

/* sim_queue.c */
weft_status wi_sim_event_add(struct wi_sim *s, double time, unsigned kind, uint32_t id);
/* An event of a flow: add, move or (infinity) take out. */
weft_status wi_sim_event_set(struct wi_sim *s, uint32_t flow, double time);
struct wi_sim_event wi_sim_event_pop(struct wi_sim *s);
/* Room for one more in a pool that doubles; latches WEFT_ENOMEM. */
int wi_sim_room(struct wi_sim *s, void *pool, uint32_t used, uint32_t *capacity, size_t bytes);

/* sim_flows.c */
uint32_t wi_sim_flow_begin(struct wi_sim *s, double units, double cap);
void wi_sim_flow_uses(struct wi_sim *s, uint32_t flow, uint32_t resource, double weight);
void wi_sim_flow_end(struct wi_sim *s, uint32_t flow);
void wi_sim_flows_settle(struct wi_sim *s); /* rates after the changes of this instant */

/* sim_cut.c: how data is cut */
weft_status wi_sim_cut(struct wi_sim *s, size_t bytes);
uint32_t wi_sim_pieces(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_step *step);
/* Bytes that a unit of a step handles. */
uint64_t wi_sim_unit_bytes(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_step *step,
                           uint32_t slice, uint32_t piece);
/* Where a unit's region lies: buffer (in place: of both names one) and first byte. */
uint64_t wi_sim_place(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_region *region,
                      uint32_t slice, uint32_t piece, uint32_t *buf);

/* sim_lanes.c */
void wi_sim_ready(struct wi_sim *s, uint32_t lane, uint32_t cause);
void wi_sim_lane_run(struct wi_sim *s, uint32_t lane);
void wi_sim_wake(struct wi_sim *s, uint32_t *list, uint32_t cause);
void wi_sim_lane_check_end(struct wi_sim *s, uint32_t lane);
const struct wi_step *wi_sim_step(const struct wi_sim *s, const struct wi_sim_lane *l);

/* sim_work.c: cores and wires */
/* 1: done at once; 0: the lane goes on when the core has done it. */
int wi_sim_core_ask(struct wi_sim *s, uint32_t lane);
void wi_sim_core_done(struct wi_sim *s, uint32_t rank);
void wi_sim_post(struct wi_sim *s, uint32_t lane);
void wi_sim_drained(struct wi_sim *s, uint32_t flow);
void wi_sim_arrived(struct wi_sim *s, uint32_t message);
int wi_sim_being_sent(const struct wi_sim *s, uint32_t rank, uint32_t buf, uint64_t from, uint64_t bytes);
uint32_t wi_sim_span(struct wi_sim *s, uint32_t lane, unsigned kind, double start, double end, uint64_t bytes,
                     uint32_t cause);

/* sim_explain.c: why ranks did not finish */
weft_status wi_sim_explain(const struct wi_sim *s);

#endif
