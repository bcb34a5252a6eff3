/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the disk tier: operations are cut into requests, of which at most `depth` are at the back end. */
#ifndef WI_ZERO_DISK_INTERNAL_H
#define WI_ZERO_DISK_INTERNAL_H

#include <sys/types.h>

#include "zero/disk/disk.h"

enum wi_disk_what { WI_DISK_DO_READ, WI_DISK_DO_WRITE };

/* What a piece of a stream is in the file. */
enum wi_disk_state {
    WI_DISK_NEVER,   /* not written yet */
    WI_DISK_WRITING,
    WI_DISK_VALID,
    WI_DISK_LOST,    /* a write failed: perhaps the old bytes, perhaps the new, perhaps some of each */
};

/* One request. What is left of it: after a short transfer the rest is submitted again. */
struct wi_disk_io {
    struct wi_disk_op *op; /* NULL: free */
    enum wi_disk_what what;
    int fixed; /* number of the registered buffer; -1: none */
    char *data;
    size_t bytes;
    uint64_t offset;
    unsigned tries; /* in a row without any progress */
};

struct wi_disk_result {
    unsigned io;
    int64_t result; /* bytes, or -errno */
};

/* Who performs requests. Only what the comments say may block. */
struct wi_disk_backend {
    const char *name;
    /* Set disk->state. Fails with a recorded text. */
    weft_status (*start)(struct wi_disk *disk);
    /* Begin disk->ios[io]; there are never more than `depth` under way. It may wait for flush or reap. */
    void (*submit)(struct wi_disk *disk, unsigned io);
    /* Hand over what submit has left; NULL: it leaves nothing. */
    void (*flush)(struct wi_disk *disk);
    /* Take ended ones, at most max. deadline_ns 0: those that are there; else wait until there is one, or the deadline has passed.
     * Returns how many, or -errno if the back end itself is broken. */
    int (*reap)(struct wi_disk *disk, struct wi_disk_result *results, unsigned max, uint64_t deadline_ns);
    /* Ask for an early end of all that are under way; NULL: not possible. */
    void (*cancel)(struct wi_disk *disk);
    /* Nothing is under way. May wait for its own threads. Called only after start has succeeded. */
    void (*stop)(struct wi_disk *disk);
    /* NULL, or register disk->regions anew, nothing being under way. Sets `fixed` of each. Returns 0 or errno. */
    int (*fix)(struct wi_disk *disk);
};

extern const struct wi_disk_backend wi_disk_backend_uring;
extern const struct wi_disk_backend wi_disk_backend_threads;

struct wi_disk_op {
    int used;
    enum wi_disk_what what;
    size_t extent, first, nchunks;
    unsigned stream, nstreams; /* all of the extent's, unless it is one chunk */
    uint64_t offset, bytes, issued;
    char *buffer;
    int fixed;
    unsigned inflight;
    uint64_t number; /* operations begin in this order */
    int error;       /* errno; 0: none so far */
    uint64_t error_offset;
    int held;        /* not to be submitted yet */
    int orphan;      /* nobody waits for it any more */
    int torn;        /* an unexpected end of the file, or no progress at all; instead of errno's text */
};

/* Memory of buffers. */
struct wi_disk_region {
    struct wi_disk_region *next;
    char *data;
    size_t bytes;
    int wanted; /* to be registered */
    int fixed;  /* number; -1: not registered */
};

struct wi_disk_geometry {
    uint64_t offset, stream_bytes;
    unsigned nstreams;
    size_t piece; /* bytes of each stream in all chunks but the last */
    size_t nchunks, first_part;
    int coded; /* a stream has a codec */
    const char *codecs[WI_DISK_STREAMS_MAX];
    size_t room[2][WI_DISK_STREAMS_MAX], rooms[2]; /* in the file, and together: of all chunks but the last; of the last */
};

enum wi_disk_slot_state { WI_DISK_SLOT_FREE, WI_DISK_SLOT_READING, WI_DISK_SLOT_READY, WI_DISK_SLOT_WRITING, WI_DISK_SLOT_DIRTY };

struct wi_disk_slot {
    enum wi_disk_slot_state state;
    void *data; /* pieces, or images where streams have codecs */
    struct wi_disk_op *ops[WI_DISK_STREAMS_MAX]; /* under way; NULL: none. One for all streams, or one for each */
    int partial;                                 /* the last could not begin */
    size_t index; /* of the extent in the list that is streamed */
    size_t extent, chunk;
    unsigned stream, nstreams; /* what of the chunk it has */
};

struct wi_disk {
    char *path;
    int fd, direct, coded;
    pid_t pid; /* who made it */
    size_t block_bytes, chunk_bytes, slot_bytes; /* slot: as many as a chunk, or more where images may be longer */
    unsigned depth, threads, nslots;
    uint64_t timeout_ns;
    wi_disk_share_fn share;
    void *share_arg;
    size_t nextents, nparts;
    struct wi_disk_geometry *extents;
    uint32_t *crcs;         /* of parts: extent, chunk, stream */
    size_t *lengths;        /* of parts' images; NULL: no stream has a codec */
    char *work;             /* a chunk of what is decoded; likewise */
    unsigned char *states;  /* enum wi_disk_state */
    unsigned char *marks;   /* of extents: in the list of the stream that runs */
    const struct wi_disk_backend *backend;
    void *state; /* of the back end */
    struct wi_disk_region *regions;
    int nfixed; /* of regions, registered */
    struct wi_disk_io *ios;
    struct wi_disk_result *results;
    unsigned inflight;
    struct wi_disk_op ops[WI_DISK_OPS_MAX];
    uint64_t numbers; /* given to operations */
    int turn;         /* the kind of request that goes next, where there are both */
    int canceling;
    int broken;       /* errno of a back end that failed as a whole */
    int streaming;    /* inside of a compute function */
    struct wi_disk_slot *slots;
    void *bounce; /* of get and put */
    struct wi_disk_stats stats;
};

/* disk_file.c */
weft_status wi_disk_file_create(struct wi_disk *disk, const struct wi_disk_config *config);
/* Allocate so many bytes behind its end. It is as it was if that fails. */
weft_status wi_disk_file_grow(struct wi_disk *disk, uint64_t bytes);
/* WEFT_ESYS: a write up to `end` would exceed RLIMIT_FSIZE, which raises SIGXFSZ in the thread that submits it. */
weft_status wi_disk_file_limit(const struct wi_disk *disk, uint64_t end);

/* disk_code.c */
/* How much room streams have in the file; before extents are. */
weft_status wi_disk_rooms(struct wi_disk_geometry *g, size_t extent);
/* From the begin of a chunk to one of its streams: in the file, and in a slot that has the chunk from stream `first` on. */
size_t wi_disk_stream_offset(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned first, unsigned stream);
/* One stream of a chunk, between values and its image. */
weft_status wi_disk_decode(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *image, void *values);
weft_status wi_disk_encode(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *values, void *image);
/* All streams of a piece that have codecs, between the piece and a slot; where one fails, none of the chunk is to be read any more
 * if it was encoded. */
weft_status wi_disk_code_piece(struct wi_disk *disk, const struct wi_disk_piece *piece, void *images, int encode);

/* disk_op.c */
uint64_t wi_disk_chunk_offset(const struct wi_disk *disk, size_t extent, size_t chunk);
size_t wi_disk_part(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream);
/* The text of a refusal, where a forked child calls or the back end is broken. */
weft_status wi_disk_usable(const struct wi_disk *disk);
weft_status wi_disk_parts_begin(struct wi_disk *disk, enum wi_disk_what what, size_t extent, size_t first, size_t nchunks,
                                unsigned stream, unsigned nstreams, void *buffer, struct wi_disk_op **op);
/* Submit what there is room for, take what has ended; wait for something until the deadline, but not for long. 0: do not wait. */
void wi_disk_turn(struct wi_disk *disk, uint64_t deadline_ns);
/* What these pieces have in the file is not to be read. */
void wi_disk_pieces_lost(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, unsigned nstreams);
enum wi_disk_state wi_disk_piece_state(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream);
/* Wait, by the disk's own time. After a time-out the operation is forgotten once it has ended. */
weft_status wi_disk_wait_all(struct wi_disk *disk, struct wi_disk_op *op);
/* Cancel or complete all that is under way until the deadline; returns whether nothing is left. */
int wi_disk_drain(struct wi_disk *disk, uint64_t deadline_ns);

/* disk_stream.c */
/* Wait for what an earlier call left under way, and write what could not be written. */
weft_status wi_disk_settle(struct wi_disk *disk);
/* Read or write a slot and wait for it. If a write fails, its data stay in it. */
weft_status wi_disk_slot_read(struct wi_disk *disk, struct wi_disk_slot *slot);
weft_status wi_disk_slot_write(struct wi_disk *disk, struct wi_disk_slot *slot);

/* disk.c */
weft_status wi_disk_bounce(struct wi_disk *disk, void **buffer);

#endif
