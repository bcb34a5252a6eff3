/* SPDX-License-Identifier: BSD-3-Clause */
/* The executors of all ranks of one communicator in one process, over a fake transport, and calls that run through them.
 *
 * What an operation will consist of besides one schedule for each rank belongs here: in struct form (call.h) what is run, in
 * struct world_knobs what a run draws of it, in call_interpret what it leaves. */
#ifndef TESTS_EXEC_WORLD_H
#define TESTS_EXEC_WORLD_H

#include "call.h"
#include "fake.h"

#define MAX_CALLS 8

enum drive {
    DRIVE_QUEUED, /* issued, and advanced by wi_exec_progress, all ranks in one thread */
    DRIVE_ALONE   /* wi_exec_run_alone, a thread for each rank, one of which runs at a time */
};

enum engine { ENGINE_HOST, ENGINE_LATE, ENGINE_WORKERS };

/* What one run draws, besides the calls. */
struct world_knobs {
    uint64_t seed;
    struct fake_knobs fake;
    enum drive drive;
    int ncalls;
    size_t slice_bytes[MAX_CALLS], nt_bytes;
    int gate;          /* calls begin with an exchange of so many bytes; 0: they do not */
    int gate_first;    /* before that they wait at a gate that is found closed some times */
    int get, put;      /* other ranks' buffers are copied from, to, by the transport */
    int stream;        /* slots are stored past the caches */
    int keep_programs; /* calls of a form share what was lowered */
    int slow;          /* a rank that seldom gets a turn; -1: none */
    enum engine engine;
    int turns;         /* 0: the ranks take turns; else whose turn it is is drawn */
};

/* What occurred, summed up over runs. */
struct world_seen {
    uint64_t runs, calls, staged, sliced, fragmented, ll, alone, gated, nt, streamed, kept, scaled, fused, packed, coded, v, peers,
        variable, adds;
    uint64_t gates;               /* of gate_first */
    uint64_t overlapped;          /* rounds after which a fragment had moved in a stage that the one ahead of it had left */
    uint64_t posted, late, parts; /* of the late engine */
    struct fake_seen fake;
};

/* NULL: every rank's memory is what the plain interpreter says. Else what is wrong, valid until the next call. */
const char *world_run(const struct form *form, const struct world_knobs *knobs, struct call *const *calls,
                      struct world_seen *seen);

#endif
