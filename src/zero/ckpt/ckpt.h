/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints: sharded, atomic, in versions, incremental; loaded by any number of ranks.
 *
 * A folder, which all ranks see, holds versions, each a folder named by its tag, and the file `latest` with the newest one's tag:
 *
 *     folder/latest                            the tag and a newline
 *     folder/step100/manifest.json             what the version is; its first line has the digest of the others
 *     folder/step100/rank-00003.index          what rank 3 saved: tensors, intervals, and each chunk's place, checksum and hash
 *     folder/step100/data-ID-00003.bin         chunks that rank 3 wrote in the version whose id is ID
 *     folder/step100/client.bin                bytes of the caller
 *     folder/.weft-tmp-ID/                     a save that is not complete
 *
 * Data files never change after their save. A version that uses chunks of an earlier one has hard links to their files: it is whole
 * by itself, versions may be deleted or copied in any order, and the file system counts the references. Files of which less than
 * half is still in use are not linked; what is used of them is written again, to kept-ID-00003.bin.
 *
 * Order of a save: ranks write their files into .weft-tmp-ID and sync them and the folder; all agree; rank 0 checks that the
 * pieces of all ranks cover every tensor exactly, writes the manifest, syncs, renames the folder to its tag (this is the commit)
 * and syncs its parent; then `latest`; then versions that are too many are deleted. A crash leaves the newest complete version or
 * the one before.
 *
 * One thread at a time makes calls on a wi_ckpt or on a reader.
 *
 * Failures of a save or a load leave the communicator usable unless it was a collective of theirs that failed. */
#ifndef WI_CKPT_H
#define WI_CKPT_H

#include <stdatomic.h>
#include <weft/weft.h>

#define WI_CKPT_TAG_MAX 127
#define WI_CKPT_KIND_MAX 31
#define WI_CKPT_CHUNK_BYTES ((size_t)1 << 20)

/* Consecutive elements of a tensor, in row-major order of the full one. The pieces of all ranks cover every tensor exactly; padding
 * belongs to none. */
struct wi_ckpt_piece {
    const char *name; /* of the parameter */
    const char *kind; /* "weight", "moment1", ...: small letters, digits, underscores */
    weft_dtype dtype;
    int ndims;
    const size_t *shape;
    size_t begin, end; /* elements */
    void *data;        /* end - begin elements */
    /* NULL; or, of a save in place, instead of data: stores elements of the tensor from `first` on. Called by the save's thread. */
    weft_status (*fetch)(void *arg, size_t first, size_t elems, void *out);
    void *arg;
};

enum wi_ckpt_scalar_type { WI_CKPT_INTEGER, WI_CKPT_REAL, WI_CKPT_TEXT };

struct wi_ckpt_scalar {
    const char *name;
    enum wi_ckpt_scalar_type type;
    int64_t integer;
    double real; /* kept bit by bit, Inf too */
    const char *text;
};

/* How far a save or a load is: bytes of tensors on this rank, of the phase. Any thread reads it at any time. */
enum wi_ckpt_phase {
    WI_CKPT_NOTHING, /* none is under way */
    WI_CKPT_COPYING,
    WI_CKPT_COMPARING, /* with the version before */
    WI_CKPT_WRITING,
    WI_CKPT_COMMITTING, /* this rank has written; others may not have */
    WI_CKPT_VERIFYING,
    WI_CKPT_READING
};
struct wi_ckpt_progress {
    atomic_int phase;
    _Atomic uint64_t done, total;
};
static inline void wi_ckpt_progress_phase(struct wi_ckpt_progress *progress, enum wi_ckpt_phase phase, uint64_t total)
{
    if (!progress)
        return;
    atomic_store_explicit(&progress->done, phase == WI_CKPT_COMMITTING ? total : 0, memory_order_relaxed);
    atomic_store_explicit(&progress->total, total, memory_order_relaxed);
    atomic_store_explicit(&progress->phase, (int)phase, memory_order_release);
}
static inline void wi_ckpt_progress_add(struct wi_ckpt_progress *progress, uint64_t bytes)
{
    if (progress)
        atomic_fetch_add_explicit(&progress->done, bytes, memory_order_relaxed);
}

/* What is saved besides tensors. The scalars are the same on all ranks; of the client's bytes rank 0's are saved. */
struct wi_ckpt_state {
    const struct wi_ckpt_scalar *scalars;
    size_t nscalars;
    const void *client;
    size_t client_bytes;
};

/* The same on all ranks but for in_place, keep_buffer, direct and progress. */
struct wi_ckpt_options {
    int keep;           /* versions that stay, with the new one; 0: all */
    int replace;        /* a version of the same tag is replaced, atomically; otherwise it is an error. A crash between commit and
                           `latest` leaves a version that a program which goes on from the one before will save again */
    int incremental;    /* chunks that are as in the newest version are not written again */
    int in_place;       /* no copy is made: wi_ckpt_snapshot_wait waits until the data is written */
    int keep_buffer;    /* the memory of the copy stays for the next save */
    int direct;         /* write around the page cache where the file system can */
    size_t chunk_bytes; /* 0: WI_CKPT_CHUNK_BYTES; a multiple of 16, at least 64 */
    struct wi_ckpt_progress *progress; /* NULL, or the caller's; until the outcome is known */
};

struct wi_ckpt_result {
    uint64_t bytes;          /* of tensors on this rank */
    uint64_t written_bytes;  /* of those: written, not taken from an earlier version */
    uint64_t snapshot_ns, write_ns, total_ns;
};

/* ---- Save ---- */
struct wi_ckpt;

/* Collective: duplicates the communicator. comm NULL: one rank. timeout_ns: of each agreement, in which the fastest rank waits for
 * the slowest one's writes; 0: 30 minutes. */
weft_status wi_ckpt_create(weft_comm *comm, uint64_t timeout_ns, struct wi_ckpt **ckpt);
/* Collective. Waits for a save under way. */
weft_status wi_ckpt_destroy(struct wi_ckpt *ckpt);

/* Local: let the system give the memory for a copy of such pieces, in the background; a save with keep_buffer uses it. Between
 * saves. */
weft_status wi_ckpt_prepare(struct wi_ckpt *ckpt, const struct wi_ckpt_piece *pieces, size_t npieces);
/* Begin a save. Collective, but does not wait. Everything but the pieces' data is copied before it returns. A rank that fails here
 * makes the others' save fail. WEFT_EBUSY: the one before was not waited for. options NULL: all 0. */
weft_status wi_ckpt_begin(struct wi_ckpt *ckpt, const char *folder, const char *tag, const struct wi_ckpt_piece *pieces,
                          size_t npieces, const struct wi_ckpt_state *state, const struct wi_ckpt_options *options);
/* Return when the pieces' data may change. The calling thread helps to copy. Without a save under way: at once. */
void wi_ckpt_snapshot_wait(struct wi_ckpt *ckpt);
/* The same of the first pieces, which are copied first. */
void wi_ckpt_snapshot_wait_first(struct wi_ckpt *ckpt, size_t npieces);
/* Whether that would return at once. */
int wi_ckpt_snapshot_has(struct wi_ckpt *ckpt, size_t npieces);
/* Copy what nobody has begun to copy of the first pieces, and do not wait for the others that copy. Any thread, several at a time,
 * while the one that makes the calls does not. */
void wi_ckpt_snapshot_help(struct wi_ckpt *ckpt, size_t npieces);
/* Whether the newest save is under way, or its outcome waits to be asked for; neither of one whose begin has failed. */
enum wi_ckpt_newest { WI_CKPT_IDLE, WI_CKPT_ENDED, WI_CKPT_SAVING };
enum wi_ckpt_newest wi_ckpt_newest(struct wi_ckpt *ckpt);
/* WEFT_INPROGRESS, or the outcome of the newest save. result may be NULL; it is filled on success. */
weft_status wi_ckpt_poll(struct wi_ckpt *ckpt, struct wi_ckpt_result *result);
/* The outcome. The same on all ranks, except that a rank which loses the others after the commit cannot know of it. */
weft_status wi_ckpt_wait(struct wi_ckpt *ckpt, struct wi_ckpt_result *result);

/* ---- Load ---- */
struct wi_ckpt_reader;

/* Open a version: manifest and indexes are verified, and that all files are there with their sizes.
 *
 * comm: NULL, or collective: rank 0 chooses the version, and a failure of one rank is one of all.
 * tag NULL: the newest. If that one is damaged, the text says which older one is complete; fall_back != 0 takes it.
 * WEFT_ENOTFOUND: there is none. WEFT_ENOTSUP: of a newer format. WEFT_ECONFIG: damaged; the text names the file. */
weft_status wi_ckpt_open(const char *folder, const char *tag, int fall_back, weft_comm *comm, struct wi_ckpt_reader **reader);
void wi_ckpt_close(struct wi_ckpt_reader *reader);
/* What is read from now on is added to `progress`, of which the caller sets the phase. */
void wi_ckpt_report(struct wi_ckpt_reader *reader, struct wi_ckpt_progress *progress);

const char *wi_ckpt_tag(const struct wi_ckpt_reader *reader);
int wi_ckpt_nranks(const struct wi_ckpt_reader *reader); /* that saved it */
/* The newest complete version that is older, for who finds damaged data in this one. WEFT_ENOTFOUND: there is none. */
weft_status wi_ckpt_before(const struct wi_ckpt_reader *reader, char tag[WI_CKPT_TAG_MAX + 1]);
/* WEFT_ENOTFOUND: no scalar of this name and type. The text is the reader's. */
weft_status wi_ckpt_integer(const struct wi_ckpt_reader *reader, const char *name, int64_t *value);
weft_status wi_ckpt_real(const struct wi_ckpt_reader *reader, const char *name, double *value);
weft_status wi_ckpt_text(const struct wi_ckpt_reader *reader, const char *name, const char **value);
/* The client's bytes; the caller frees them with wi_free. */
weft_status wi_ckpt_client(struct wi_ckpt_reader *reader, void **data, size_t *bytes);

size_t wi_ckpt_ntensors(const struct wi_ckpt_reader *reader); /* of all names and kinds */
/* Compare with a model: pieces of which only names, kinds, types and shapes count. WEFT_EINVAL names the first difference. some:
 * the version may have more. */
weft_status wi_ckpt_compare(const struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *model, size_t ntensors,
                            int some);
/* Fill the pieces' data from whichever files have it, checksums verified. After a failure the data is undefined: a caller whose
 * state must survive a damaged file calls wi_ckpt_check first, which reads and verifies the same bytes and stores nothing. */
weft_status wi_ckpt_read(struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *pieces, size_t npieces);
weft_status wi_ckpt_check(struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *pieces, size_t npieces);

/* ---- Export ---- */

/* Write whole tensors as safetensors into a new folder, which appears when it is complete: model.safetensors, or, if that were more
 * than shard_bytes (0: no limit), model-00001-of-00003.safetensors, ... and model.safetensors.index.json. Needs no model and no
 * communicator, and memory for a chunk and the header.
 *
 * kinds: weights are named as the parameter, others with "." and the kind behind. */
weft_status wi_ckpt_export(const char *folder, const char *tag, const char *out, const char *const *kinds, size_t nkinds,
                           uint64_t shard_bytes);

#endif
