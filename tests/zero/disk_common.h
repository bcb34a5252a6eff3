/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of the disk tier share: folders, extents of many sizes, a model in memory, a back end that fails as told. */
#ifndef WT_DISK_COMMON_H
#define WT_DISK_COMMON_H

#include "zero/disk/disk.h"
#include "zero/disk/disk_internal.h"

#define NEXTENTS 7
#define CHUNK ((size_t)48 << 10)
#define BLOCK ((size_t)8 << 10)

extern const struct wi_disk_extent wt_extents[NEXTENTS]; /* of three streams, of one, empty, not of whole pages */

/* A folder that is removed at exit, on a file system of disks (0) or in memory (1). */
const char *wt_disk_folder(int memory);
/* Small blocks and chunks, so that little data makes many requests. */
struct wi_disk_config wt_disk_config(enum wi_disk_kind kind, int memory);

/* The bytes that each stream should have. */
struct wt_model {
    unsigned char *bytes[NEXTENTS][WI_DISK_STREAMS_MAX];
};
void wt_model_make(struct wt_model *model, unsigned seed);
void wt_model_free(struct wt_model *model);
/* Put all into a disk; the first failure. */
weft_status wt_model_put(const struct wt_model *model, struct wi_disk *disk);
/* How many streams of the disk differ, or cannot be read. */
int wt_model_differs(const struct wt_model *model, struct wi_disk *disk);
/* What wt_compute does, to all of the model. */
void wt_model_compute(struct wt_model *model);
/* How far a pass over the extents came that took several calls: pieces that an earlier call has computed stay as they are. */
struct wt_pass {
    int at, done;
};
/* A function for wi_disk_stream that changes every byte by those of the other streams and its place. arg: NULL, or a pass, with
 * `at` 0 at the begin of each call. */
weft_status wt_compute(void *arg, const struct wi_disk_piece *piece);

/* The back end of faults: what it is told happens to requests, numbered from 1. */
struct wt_fault {
    enum wi_disk_what what; /* only these count */
    long nth, count;        /* the first that fails, and how many do */
    int64_t result;         /* instead of the system call's; or one of: */
#define WT_FAULT_WEDGE (INT64_MIN)         /* it does not end until wt_fault_release */
#define WT_FAULT_SHORT (INT64_MIN + 1)     /* no more than short_bytes are moved */
#define WT_FAULT_BROKEN (INT64_MIN + 2)    /* the back end fails as a whole */
    size_t short_bytes;
    long seen;
};
extern struct wt_fault wt_fault;
extern const struct wi_disk_backend wt_fault_backend;
void wt_fault_release(void);

#endif
