/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation: what it is bound to, how far it has run, and the states in which it waits.
 *
 * An operation runs in fragments. A fragment is one slice of every block, from the first step of the first program to the last step
 * of the last one. Fragments of a mapped operation are an epoch each; several are in flight, in order, at most as many as there are
 * slots. An operation of messages alone has one fragment, whose steps are cut into slices that stream. An operation in stages
 * (mapped programs before and after one of messages) has fragments that pass through all its programs; its messages are not cut any
 * further. A point-to-point message has neither a program nor fragments: it is one transfer (match.h). */
#ifndef WI_EXEC_OP_H
#define WI_EXEC_OP_H

#include "base/reduce.h"
#include "exec/coded.h"
#include "exec/lower.h"
#include "exec/recorder.h"

struct wi_exec;
struct wi_op;
struct wi_work;

/* One posted transfer and what to do with it. */
struct wi_pend {
    struct weft_xfer x;
    struct wi_pend *next;
    struct wi_op *op;
    unsigned char *dst;       /* where the data belongs */
    const unsigned char *src; /* RECV_REDUCE: the other operand */
    unsigned char *bounce;    /* owned; NULL: received in place or by the sink */
    uint8_t reduce, flags, forward;
    struct wi_work *work; /* an engine puts it where it belongs */
};

struct wi_lane_state {
    uint32_t step, slice, unit;
    uint32_t post_step, post_slice, post_unit; /* next unit to post; post_step may be ahead of `step` */
    struct wi_pend *recvs, **recvs_tail;
    uint32_t nrecvs;
    struct wi_pend *sends;
    struct wi_work *work; /* an engine does the unit that it is at */
    uint8_t done;
};

#define WI_STAGES_MAX 3

struct wi_fragment {
    struct wi_fragment *next;   /* younger; of the pool: any */
    const struct wi_prog *prog; /* of the stage that it is in */
    uint32_t stage;
    uint32_t window, chan_base; /* channels of its messages, of which the first */
    size_t from;                /* of each block: the first byte, and the one behind the last */
    size_t to;
    uint64_t epoch; /* mapped */
    uint32_t nlanes_left, nlanes_room;
    uint8_t entered; /* its slot may be written */
    struct wi_lane_state lane[];
};

/* What runs: the program, on whose data. */
struct wi_binding {
    struct wi_sched *sched;                /* counted reference */
    struct wi_prog *stage[WI_STAGES_MAX]; /* likewise: the programs of its stages */
    uint32_t nstages;                      /* 1, but for schedules in stages; 0: it has no program */
    struct wi_redop redop;
    unsigned char *base[WI_NUM_BUFS];
    unsigned char *const *peer_base[2]; /* direct schedules: SRC, DST of every rank in this address space */
    struct wi_layout layout;
    size_t block_bytes, total_bytes;    /* of a vector block or share; of the vector (0 for per-rank collectives) */
    size_t scale;                       /* what the program's lengths are multiplied by */
    size_t slice_bytes, fragment_bytes; /* SIZE_MAX: it is not cut so */
    uint32_t nslices, nfragments;       /* slices: of a fragment */
    size_t slot_bytes;                  /* mapped: of a slot that a fragment uses */
    size_t slot_work;                   /* bytes that go over slots: the size class in autotune.h */
    struct wi_coding coding;
    size_t parts_from;                  /* v-forms: shorter parts are left out, another operation has them */
    struct wi_packing *packing;         /* owned; NULL, or messages say how long what they hold is: packed.c */
    uint32_t named;   /* of the algorithm that the caller named, a hash that info.hash holds; 0: none */
    uint32_t label;   /* likewise: of what the caller says that it is for (label.h) */
    uint32_t planned; /* likewise: of what was planned behind a gate */
    uint8_t get, put; /* peers' memory is got, put to: peer_base holds their addresses */
    uint8_t send_empty, ll;
    uint8_t mapped, messages; /* it has stages of this kind */
    uint8_t nt;               /* results are stored past the caches */
    uint8_t adds;             /* they are added to what the destination holds */
    void *const *peer_remote[2]; /* of gets and puts that complete later: what the transport made of their keys; else NULL */
};

/* How far it is. */
struct wi_op_run {
    struct wi_fragment *first, **last; /* in flight, oldest first */
    uint32_t begun, inflight;          /* fragments */
    uint64_t epoch;                    /* mapped: of the oldest fragment in flight */
    uint8_t alone;                     /* run by the thread that called it, which does nothing else: exec->let_in */
    uint8_t slot_nt, claim;            /* slots: streaming stores; lines claimed while this rank waits */
    uint64_t stores_since;             /* ticks when a timed trial of autotune.h began; else 0 */
};

/* Of a message: with whom, and how sender and receiver find each other (match.c). */
struct wi_op_match {
    uint8_t point_to_point, sending;
    uint8_t internal; /* the library's own message */
    uint8_t by_tag;   /* a receive may have to be found for it: match.c reads its channel */
    int peer;         /* may be WEFT_ANY_SOURCE */
    int64_t tag;      /* may be WEFT_ANY_TAG */
    int got_source;   /* of the message that was received */
    int64_t got_tag;
    uint64_t order;          /* of receives */
    struct wi_pend *message; /* the transfer of the payload; NULL: not posted yet */
    struct wi_op *next;      /* of those that wait to be found */
    int gone;                /* ranks that can send nothing any more */
};

/* Before an operation can be planned it may have to wait: for what other ranks say, for lengths that depend on data, for a device's
 * stream. It is numbered by then, so that it keeps its place, and nothing behind it takes channels or epochs. */
struct wi_gate_ops {
    const char *name; /* in errors: "waited 5 s at NAME" */
    /* All ranks have this gate: what they plan behind it must be the same, and is compared when it runs (wi_exec_planned). */
    uint8_t agreed;
    /* 1: open; 0: closed, and op->wait says which rank it waits for if there is one; < 0: failed, with text. It never blocks. */
    int (*poll)(struct wi_exec *exec, struct wi_op *op, int *moved);
};

struct wi_op_gate {
    const struct wi_gate_ops *ops; /* NULL: it is open, or there is none */
    void *arg;                     /* the gate's */
    uint64_t timeout_ns, deadline_ns; /* of its own; 0: the operation's */
    /* It is open: lays the operation out, or closes the next gate. A failure has a text. */
    weft_status (*opened)(struct wi_exec *exec, struct wi_op *op);
};

/* One record from every rank to every rank over ll lines: ll.c. */
#define WI_EXCHANGE_MAX 128
struct wi_exchange {
    uint8_t published;
    uint16_t record_bytes;
    int rank; /* next rank to hear from */
    unsigned char record[WI_EXCHANGE_MAX];
    const unsigned char *longer; /* borrowed; NULL, or the record in place of that one */
};

/* While blocked in a mapped wait: the word and the least value that ends it. */
struct wi_op_wait {
    const uint64_t *word;
    uint64_t least, mask;
    int peer;
    uint32_t rounds; /* of waiting since the operation last moved */
};

/* What an operation owns. */
enum wi_op_owned {
    WI_OWNED_SCRATCH, /* base[WI_TMP] */
    WI_OWNED_EXTENTS, /* and one more: of SRC, of DST */
    WI_OWNED_PEERS = WI_OWNED_EXTENTS + 2, /* what an exchange of buffers gave */
    WI_OWNED_SOURCE,                       /* a copy of the source, which may be changed */
    WI_OWNED
};

enum wi_op_state { WI_OP_IDLE, WI_OP_QUEUED, WI_OP_RUNNING, WI_OP_DONE };

struct wi_op_list {
    struct wi_op *head, **tail;
};

struct wi_op {
    struct wi_op *next, **link; /* in flight: what points to it; NULL: it is not */
    struct wi_op_list *list;    /* likewise: where */
    uint64_t number;            /* of all that were issued here */
    struct weft_op_info info;
    uint8_t state; /* enum wi_op_state */
    weft_status status;
    uint64_t timeout_ns, deadline_ns;
    struct wi_record *record;
    uint32_t record_serial;
    struct wi_op_wait wait;
    struct wi_op_run run;
    struct wi_binding bind;
    struct wi_op_match match;
    struct wi_op_gate gate;
    struct wi_op *prelude_of; /* what this one prepares, and is issued right before: both are one call, with one number and one
                               * entry in the recorder. NULL: it is a call for itself */
    uint8_t has_prelude;      /* one was issued, and has given it these */
    void *owned[WI_OWNED];                         /* freed when the operation ends */
    void (*finished)(struct wi_op *op, void *arg); /* NULL, or called when state becomes DONE */
    void *finished_arg;
};

#endif
