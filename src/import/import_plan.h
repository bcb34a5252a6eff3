/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the reader of MSCCL++ plans: what the plan says besides steps, and events that find their partners when all has
 * been read. */
#ifndef WI_SCHED_IMPORT_PLAN_H
#define WI_SCHED_IMPORT_PLAN_H

#include "import/import_program.h"

#include <jansson.h>

enum wi_plan_via { WI_VIA_MEMORY, WI_VIA_PORT, WI_NUM_VIAS };

/* One op of the program. */
struct wi_plan_spot {
    uint32_t lane, op;
};

struct wi_plan_list {
    struct wi_plan_spot *at;
    uint32_t n, capacity;
};

/* A connection as one of its ends sees it. */
struct wi_plan_chan {
    int peer;
    uint32_t partner; /* index in the peer's list; WI_NOWHERE: it has none */
    struct wi_plan_list signals, waits;
};

struct wi_plan_remote {
    int rank;
    unsigned buf;
    uint8_t via[WI_NUM_VIAS];
};

/* Arrivals at a barrier, or releases and acquisitions of a semaphore. */
struct wi_plan_event {
    uint32_t id, turn; /* the how-manieth of its lane */
    uint32_t lane, op; /* barrier: of the arrival; the leaving NOPs follow it */
    uint32_t members;  /* barrier */
    uint8_t kind;      /* enum wi_plan_event_kind */
};
enum wi_plan_event_kind { WI_PLAN_BARRIER, WI_PLAN_RELEASE, WI_PLAN_ACQUIRE };

struct wi_plan_gpu {
    struct wi_plan_chan *chans[WI_NUM_VIAS];
    uint32_t nchans[WI_NUM_VIAS];
    struct wi_plan_remote *remotes;
    uint32_t nremotes;
    uint32_t *sem_init;
    uint32_t nsems;
    struct wi_plan_event *events;
    uint32_t nevents, event_capacity;
};

struct wi_plan_reader {
    struct wi_imp_prog prog;
    struct wi_plan_gpu *gpus; /* [nranks] by rank */
    /* Where the reader is, for texts. */
    uint32_t gpu_at, tb_at, op_at, inner_at;
    int rank;
    struct wi_imp_lane *lane;
    const json_t *tb;
};

weft_status wi_plan_bad(const struct wi_plan_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
weft_status wi_plan_number(const struct wi_plan_reader *r, const json_t *object, const char *key, long long least,
                           long long most, long long *value);
/* An array; missing is empty unless `needed`. */
weft_status wi_plan_array(const struct wi_plan_reader *r, const json_t *object, const char *key, int needed,
                          const json_t **array);
weft_status wi_plan_buffer(const struct wi_plan_reader *r, const json_t *object, const char *key, unsigned *buf);
weft_status wi_plan_via(const struct wi_plan_reader *r, const json_t *value, enum wi_plan_via *via);
weft_status wi_plan_grow(const struct wi_plan_reader *r, void **array, uint32_t *capacity, uint32_t need, size_t elem_bytes);

/* ---- import_plan_ops.c ---- */
weft_status wi_plan_op(struct wi_plan_reader *r, const json_t *op);
/* ---- import_plan_events.c: dependencies and waits find what they wait for ---- */
weft_status wi_plan_resolve(struct wi_plan_reader *r);

#endif
