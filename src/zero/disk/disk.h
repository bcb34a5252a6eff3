/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier: extents of one preallocated file, read and written asynchronously, and streamed through memory.
 *
 * An extent holds 1 to WI_DISK_STREAMS_MAX streams of equal length (weight, moment1, moment2), which are computed on together.
 * It is cut into chunks: chunk c has the c-th piece of each stream, one behind the other, so that a chunk is one run of bytes
 * in the file and in memory. Pieces are padded to WI_DISK_ALIGN bytes; that of an extent with one stream is contiguous all through.
 * Each piece of each stream has a CRC32C, in memory: the file is of this disk alone, and ends with it.
 *
 * A stream of fp32 numbers may have a codec (weft_compress.h): what is in the file of each of its pieces is then an image, in as
 * much room as the longest may need, and only as much of it as there is is read and written; the CRC is of the image.
 *
 * Threads: one at a time calls functions of a disk. Forked children are refused. Errors name the file, the operation, the
 * extent, the offset in the file and the system's reason. */
#ifndef WI_ZERO_DISK_H
#define WI_ZERO_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_DISK_ALIGN 4096
#define WI_DISK_STREAMS_MAX 8
#define WI_DISK_OPS_MAX 64

struct wi_disk;
struct wi_disk_op;
struct wi_disk_backend;

enum wi_disk_kind {
    WI_DISK_AUTO,    /* io_uring where the kernel allows it, else threads */
    WI_DISK_URING,   /* io_uring, or an error */
    WI_DISK_THREADS, /* threads that call pread and pwrite */
};

/* Calls work(work_arg, unit) for 0 to n - 1, each once, in any order and on any threads; returns when all have returned. */
typedef void (*wi_disk_share_fn)(void *arg, void (*work)(void *work_arg, size_t unit), void *work_arg, size_t n);

struct wi_disk_config {
    const char *folder; /* exists and is writable */
    const char *name;   /* of the file, for errors: it is unlinked as soon as it is made */
    int buffered;       /* do not try O_DIRECT */
    enum wi_disk_kind kind;
    size_t block_bytes;  /* of a request, a multiple of WI_DISK_ALIGN; aio.block_size. 0: 1 MiB */
    unsigned depth;      /* requests under way at a time; aio.queue_depth. 0: 8; at most 1024 */
    unsigned threads;    /* of the second kind; aio.intra_op_parallelism. 0: depth, but at most 8 */
    size_t chunk_bytes;  /* of memory that a chunk takes; a multiple of WI_DISK_ALIGN. 0: depth blocks */
    unsigned slots;      /* chunks in memory while extents are streamed: 3 or more. 0: 3 */
    uint64_t timeout_ns; /* of each wait inside of create, stream, get, put and destroy. 0: 60 s */
    wi_disk_share_fn share; /* NULL, or by whom streams that have codecs are coded at the same time */
    void *share_arg;
    const struct wi_disk_backend *backend; /* NULL, or instead of those of `kind` (tests) */
};

struct wi_disk_extent {
    uint64_t stream_bytes; /* of each stream; may be 0 */
    unsigned nstreams;
    const char *codecs[WI_DISK_STREAMS_MAX]; /* of each stream, whose bytes are fp32 then; NULL: as it is. Borrowed */
};

struct wi_disk_stats {
    const char *backend;      /* "io_uring", "threads" */
    int direct;               /* O_DIRECT */
    int fixed;                /* all buffers are registered with the kernel */
    int uring_errno;          /* why io_uring was not taken; 0: it was, or not tried */
    int fixed_errno;          /* why buffers are not registered; 0: they are, or not tried */
    int direct_errno;         /* why not O_DIRECT; 0: it is, or not tried */
    uint64_t file_bytes;      /* of the file */
    uint64_t buffer_bytes;    /* of slots and buffers in memory */
    uint64_t bytes_read;      /* by completed requests, with padding */
    uint64_t bytes_written;
    uint64_t bytes_raw;       /* what both are of, before it was coded */
    uint64_t requests_fixed;  /* with registered buffers */
    uint64_t requests_plain;
    uint64_t requests_again;  /* short or interrupted ones, continued */
    uint64_t read_wait_ns;    /* of wi_disk_stream: waited for reads */
    uint64_t write_wait_ns;   /* waited for writes, as no slot was free or at the end */
    uint64_t compute_ns;      /* in the function */
    uint64_t crc_ns;          /* in CRC32C, all calls */
    uint64_t code_ns;         /* in codecs, all calls */
};

/* ---- Making ---- */

/* Make the file, with mode 600 and O_EXCL, and allocate all of its blocks. WEFT_EINVAL: a field is out of its range; the text
 * names it. WEFT_ENOSPC: the file system is full. WEFT_ESYS: the folder does not exist or is not writable, or the file would be
 * longer than the file system or RLIMIT_FSIZE allows. WEFT_ENOTSUP: io_uring was asked for and is forbidden or too
 * old. WEFT_ENOMEM. Nothing is left behind then. */
weft_status wi_disk_create(const struct wi_disk_config *config, const struct wi_disk_extent *extents, size_t nextents,
                           struct wi_disk **disk);
/* Make the last extent longer by whole chunks, which were never written. Its last chunk is whole, and no extent has a codec.
 * WEFT_ENOSPC, WEFT_ESYS, WEFT_ENOMEM: nothing has changed. */
weft_status wi_disk_grow(struct wi_disk *disk, size_t nchunks);
/* End. Requests under way are cancelled, or completed. WEFT_ETIMEDOUT: the kernel did not return one of them; the memory that
 * it may still write stays allocated, and buffers of the caller must, too; it may be called again. NULL does nothing. */
weft_status wi_disk_destroy(struct wi_disk *disk);

/* ---- Shape ---- */

size_t wi_disk_chunks(const struct wi_disk *disk, size_t extent);
/* Bytes of each stream in a chunk; the last of an extent may have fewer than the others. */
size_t wi_disk_piece_bytes(const struct wi_disk *disk, size_t extent, size_t chunk);
/* From one stream to the next in a chunk's memory: the same, padded. */
size_t wi_disk_piece_stride(const struct wi_disk *disk, size_t extent, size_t chunk);
/* Memory that chunks first to first + nchunks - 1 take. */
size_t wi_disk_range_bytes(const struct wi_disk *disk, size_t extent, size_t first, size_t nchunks);
void wi_disk_get_stats(const struct wi_disk *disk, struct wi_disk_stats *stats);

/* ---- Asynchronous ---- */

/* Memory for reads and writes, aligned to pages, 0, registered with the kernel where it allows that; the disk frees what is left.
 * Other memory that is aligned to WI_DISK_ALIGN works, too. */
weft_status wi_disk_buffer_get(struct wi_disk *disk, size_t bytes, void **buffer);
/* Nothing may be under way in it. */
void wi_disk_buffer_put(struct wi_disk *disk, void *buffer);

/* Begin to read chunks into a buffer of wi_disk_range_bytes. WEFT_EINVAL: no such chunks, not aligned; a stream has a codec; one of
 * them was never written. WEFT_EBUSY: one is being written, or WI_DISK_OPS_MAX operations are under way. */
weft_status wi_disk_read(struct wi_disk *disk, size_t extent, size_t first, size_t nchunks, void *buffer, struct wi_disk_op **op);
/* Begin to write them. Padding in the buffer is set to 0; its bytes must not change until the end. */
weft_status wi_disk_write(struct wi_disk *disk, size_t extent, size_t first, size_t nchunks, void *buffer, struct wi_disk_op **op);
/* Wait for the end of an operation, compare CRCs, and forget it. Of a failed write the buffer has the only valid copy: the
 * chunks cannot be read until they were written again. WEFT_ETIMEDOUT: it is still under way at the deadline (wi_deadline_ns)
 * and must be waited for again, or the disk be destroyed. */
weft_status wi_disk_wait(struct wi_disk *disk, struct wi_disk_op *op, uint64_t deadline_ns);
/* Whether there is nothing to wait for any more. */
int wi_disk_ended(const struct wi_disk_op *op);
/* Whether whoever performs requests has failed as a whole: nothing that is under way ends. */
int wi_disk_broken(const struct wi_disk *disk);
/* Let operations go on, without waiting: for who computes for long while more than `depth` blocks are to be moved. */
void wi_disk_progress(struct wi_disk *disk);

/* ---- Blocking ---- */

/* Copy any bytes of one stream out of the file, or into it. The rest of a piece stays as it is, or is 0 where it was never
 * written. */
weft_status wi_disk_get(struct wi_disk *disk, size_t extent, unsigned stream, uint64_t offset, size_t bytes, void *data);
weft_status wi_disk_put(struct wi_disk *disk, size_t extent, unsigned stream, uint64_t offset, size_t bytes, const void *data);

/* ---- Streaming ---- */

/* What is computed on at a time. */
struct wi_disk_piece {
    size_t index;    /* in the list of extents */
    size_t extent, chunk;
    uint64_t offset; /* of the first byte, in each stream */
    size_t bytes;    /* of each stream */
    unsigned nstreams;
    void *streams[WI_DISK_STREAMS_MAX]; /* aligned to WI_DISK_ALIGN */
};

/* May call wi_disk_progress, nothing else of this disk. A failure ends the stream; what this call changed is not written. */
typedef weft_status (*wi_disk_compute_fn)(void *arg, const struct wi_disk_piece *piece);
/* Something else to do, for about as long as a block takes: 1: it was done; 0: there is none; else a failure, which ends the
 * stream. Nothing of this disk may be called. */
typedef int (*wi_disk_idle_fn)(void *arg);

#define WI_DISK_READ 1u
#define WI_DISK_WRITE 2u

/* Read chunks, compute on them and write them: the next is read while one is computed on and the one before is written.
 *
 * @param extents  numbers, each at most once
 * @param idle     NULL, or called with `arg` while there is nothing to compute on, instead of waiting
 * @param flags    WI_DISK_READ: pieces have what was written; else anything. WI_DISK_WRITE: they are written back
 * A chunk that was computed on and cannot be written stays in its slot. It is written again when the disk is next used for
 * streaming or wi_disk_put, which fail, having done nothing else, while that does; wi_disk_get reads it from there.
 * @return WEFT_SUCCESS, what `compute` returned, or why a read or write failed: WEFT_ESYS (also bytes that are not those that were
 *         written), WEFT_ENOSPC, WEFT_ETIMEDOUT */
weft_status wi_disk_stream(struct wi_disk *disk, const size_t *extents, size_t nextents, unsigned flags, wi_disk_compute_fn compute,
                           void *arg, wi_disk_idle_fn idle);

/* Writes of these extents that have failed in wi_disk_stream are given up, and not tried again by what uses the disk next: the
 * caller has the bytes elsewhere. They are to be written as a whole before they are read. */
void wi_disk_forget(struct wi_disk *disk, const size_t *extents, size_t nextents);

#endif
