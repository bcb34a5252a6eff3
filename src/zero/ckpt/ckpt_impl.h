/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of saving and loading share. */
#ifndef WI_CKPT_IMPL_H
#define WI_CKPT_IMPL_H

#include <stdatomic.h>
#include <pthread.h>

#include "zero/ckpt/ckpt.h"
#include "zero/ckpt/ckpt_format.h"
#include "zero/ckpt/ckpt_io.h"

/* ---- Agreement of ranks (ckpt_agree.c). comm NULL: one rank, and nothing is sent. ---- */

/* What a rank says; 8 bytes per number, so that it is the same on all ranks. */
struct wi_ckpt_word {
    int64_t status;
    uint64_t numbers[8];
    char tag[128], id[40], text[376];
};
struct wi_ckpt_group {
    weft_comm *comm;
    int rank, nranks;
    struct wi_ckpt_word *words; /* of all ranks, after a gather */
};
weft_status wi_ckpt_group_init(struct wi_ckpt_group *group, weft_comm *comm);
void wi_ckpt_group_fini(struct wi_ckpt_group *group);
/* Give every rank's word to all. `mine` is this rank's status so far, whose text is the thread's newest one. The failure of the
 * lowest rank that has one is returned on all ranks. */
weft_status wi_ckpt_gather(struct wi_ckpt_group *group, const struct wi_ckpt_word *word, weft_status mine);
/* Give rank 0's word to all; its failure is returned on all ranks. */
weft_status wi_ckpt_tell(struct wi_ckpt_group *group, struct wi_ckpt_word *word, weft_status mine);

/* ---- Versions in a folder (ckpt_open.c) ---- */

struct wi_ckpt_reader {
    struct wi_ckpt_dir folder, dir;
    char tag[128]; /* the folder's name; a copy's manifest has the original's */
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_index *indexes; /* of manifest.nranks */
    struct wi_ckpt_map map;
    int **fds; /* of each index's files; -1: not open */
    size_t nopen;
    unsigned char *chunk; /* of manifest.chunk_bytes */
    struct wi_ckpt_progress *progress; /* NULL, or what was read is added to it */
};
/* check_files: all data files are there with their sizes. */
weft_status wi_ckpt_version_open(const char *folder, const char *tag, int check_files, struct wi_ckpt_reader **reader);
weft_status wi_ckpt_rank_index_load(const struct wi_ckpt_dir *dir, uint32_t rank, const struct wi_ckpt_digest *digest,
                                    struct wi_ckpt_index *index);
/* Would this folder open as a version, with its files? WEFT_SUCCESS if it would. */
weft_status wi_ckpt_version_verify(const struct wi_ckpt_dir *dir);

/* Versions whose manifests are whole, newest first. */
struct wi_ckpt_version {
    char tag[128];
    uint64_t sequence;
};
struct wi_ckpt_versions {
    const struct wi_ckpt_dir *folder;
    struct wi_ckpt_version *list;
    size_t count, room;
};
weft_status wi_ckpt_versions_list(struct wi_ckpt_versions *versions, const struct wi_ckpt_dir *folder);
void wi_ckpt_versions_fini(struct wi_ckpt_versions *versions);

/* ---- Reading (ckpt_read.c) ---- */

/* Elements begin to end of an entry; out NULL: only verified. */
weft_status wi_ckpt_range_read(struct wi_ckpt_reader *reader, const struct wi_ckpt_entry *entry, size_t begin, size_t end,
                               void *out);

/* ---- Saving ---- */

struct wi_ckpt_source {
    const unsigned char *data; /* the caller's; NULL: `fetch` has it */
    weft_status (*fetch)(void *arg, size_t first, size_t elems, void *out);
    void *arg;
    size_t first, elems; /* of the tensor */
    unsigned char *copy;       /* where it goes; NULL: in place */
    size_t bytes;
};

/* One save. */
struct wi_ckpt_run {
    char *folder, tag[128], id[WI_CKPT_ID_HEX + 1], parent[128];
    uint64_t sequence;
    struct wi_ckpt_options options;
    struct wi_ckpt_index index;
    struct wi_ckpt_source *sources; /* of index.nchunks */
    unsigned char *scratch; /* a chunk that was fetched; NULL until one is */
    json_t *scalars;
    unsigned char *client;
    size_t client_bytes;
    struct wi_ckpt_digest client_digest;
    weft_status begun; /* a failure in begin */
    char begun_text[512];
    struct wi_ckpt_result result;
};

/* ckpt_write.c: this rank's files, in the temporary folder. digest: of the index. */
weft_status wi_ckpt_write(struct wi_ckpt_run *run, uint32_t rank, const struct wi_ckpt_dir *temp, struct wi_ckpt_digest *digest);

/* ckpt_commit.c: rank 0's part. */
struct wi_ckpt_commit {
    struct wi_ckpt_dir folder, temp;
    int lock; /* -1: this file system has none */
    unsigned uid;
    char temp_name[sizeof(WI_CKPT_TEMP) + WI_CKPT_ID_HEX];
    int made;
};
weft_status wi_ckpt_commit_prepare(struct wi_ckpt_commit *commit, struct wi_ckpt_run *run);
weft_status wi_ckpt_commit_do(struct wi_ckpt_commit *commit, struct wi_ckpt_run *run, const struct wi_ckpt_digest *digests,
                              int nranks);
/* Delete what is not complete, and let others save. */
void wi_ckpt_commit_fini(struct wi_ckpt_commit *commit);

#endif
