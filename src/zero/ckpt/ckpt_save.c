/* SPDX-License-Identifier: BSD-3-Clause */
/* Saves in the background: a thread copies the data, writes, and agrees with the other ranks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "zero/ckpt/ckpt_run.h"
#include "zero/ckpt/ckpt_snapshot.h"

#define DEFAULT_TIMEOUT_NS (1800ull * 1000000000)

struct wi_ckpt {
    struct wi_ckpt_group group;
    pthread_t thread;
    int has_thread; /* to be joined */
    int silent;     /* the save failed in begin, which has said so already */
    weft_status outcome;
    char outcome_text[512];
    struct wi_ckpt_run run;
    struct wi_ckpt_buffer buffer;
    uint64_t begun_ns;
    struct wi_ckpt_snapshot snapshot;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done; /* under the mutex */
};

/* ---- The copy ---- */

static void snapshot(struct wi_ckpt *ckpt)
{
    if (ckpt->run.options.in_place)
        return;
    wi_ckpt_snapshot_copy(&ckpt->snapshot, SIZE_MAX);
    wi_ckpt_snapshot_await(&ckpt->snapshot, SIZE_MAX); /* the caller may be copying the last chunks */
    ckpt->run.result.snapshot_ns = wi_now_ns() - ckpt->begun_ns;
    wi_ckpt_snapshot_free(&ckpt->snapshot);
}

/* Chunks of the first pieces. */
static size_t chunks_of(const struct wi_ckpt *ckpt, size_t npieces)
{
    const struct wi_ckpt_index *index = &ckpt->run.index;

    return npieces < index->nspans ? index->spans[npieces].first_chunk : index->nchunks;
}

static int is_saving(const struct wi_ckpt *ckpt)
{
    return ckpt && ckpt->has_thread && !ckpt->silent;
}

void wi_ckpt_snapshot_help(struct wi_ckpt *ckpt, size_t npieces)
{
    if (is_saving(ckpt))
        wi_ckpt_snapshot_copy(&ckpt->snapshot, chunks_of(ckpt, npieces));
}

int wi_ckpt_snapshot_has(struct wi_ckpt *ckpt, size_t npieces)
{
    return !is_saving(ckpt) || wi_ckpt_snapshot_done(&ckpt->snapshot, chunks_of(ckpt, npieces));
}

void wi_ckpt_snapshot_wait_first(struct wi_ckpt *ckpt, size_t npieces)
{
    if (!is_saving(ckpt))
        return;
    wi_ckpt_snapshot_help(ckpt, npieces);
    wi_ckpt_snapshot_await(&ckpt->snapshot, chunks_of(ckpt, npieces));
}

void wi_ckpt_snapshot_wait(struct wi_ckpt *ckpt)
{
    wi_ckpt_snapshot_wait_first(ckpt, SIZE_MAX);
}

/* ---- The save. Every rank goes through the same exchanges, whatever fails on it. ---- */

static weft_status same_on_all(const struct wi_ckpt_group *group)
{
    const struct wi_ckpt_word *first = &group->words[0];

    for (int r = 1; r < group->nranks; r++) {
        const struct wi_ckpt_word *other = &group->words[r];

        if (strcmp(first->tag, other->tag))
            return wi_fail(WEFT_EMISMATCH, "ranks save different tags: rank 0 \"%s\", rank %d \"%s\"", first->tag, r,
                           other->tag);
        if (first->numbers[0] != other->numbers[0])
            return wi_fail(WEFT_EMISMATCH, "checkpoint \"%s\": rank %d has other scalars than rank 0", first->tag, r);
        if (memcmp(&first->numbers[1], &other->numbers[1], 4 * sizeof(first->numbers[0])))
            return wi_fail(WEFT_EMISMATCH, "checkpoint \"%s\": rank %d has other options than rank 0", first->tag, r);
    }
    return WEFT_SUCCESS;
}

static weft_status agree_to_save(struct wi_ckpt *ckpt)
{
    struct wi_ckpt_run *run = &ckpt->run;
    struct wi_ckpt_word word = {0};

    wi_ckpt_text_copy(word.tag, sizeof(word.tag), run->tag);
    word.numbers[0] = wi_ckpt_run_scalars_hash(run);
    word.numbers[1] = (uint64_t)run->options.keep;
    word.numbers[2] = (uint64_t)run->options.replace;
    word.numbers[3] = (uint64_t)run->options.incremental;
    word.numbers[4] = run->index.chunk_bytes;
    if (run->begun < 0)
        wi_fail(run->begun, "%s", run->begun_text);
    WI_TRY(wi_ckpt_gather(&ckpt->group, &word, run->begun));
    return same_on_all(&ckpt->group);
}

/* Rank 0 has made the temporary folder, or not: `st`. */
static weft_status agree_where(struct wi_ckpt *ckpt, weft_status st)
{
    struct wi_ckpt_run *run = &ckpt->run;
    struct wi_ckpt_word word = {0};

    wi_ckpt_text_copy(word.id, sizeof(word.id), run->id);
    wi_ckpt_text_copy(word.tag, sizeof(word.tag), run->parent);
    word.numbers[0] = run->sequence;
    WI_TRY(wi_ckpt_tell(&ckpt->group, &word, st));
    word.id[WI_CKPT_ID_HEX] = '\0';
    memcpy(run->id, word.id, sizeof(run->id));
    memcpy(run->parent, word.tag, sizeof(run->parent));
    run->sequence = word.numbers[0];
    return WEFT_SUCCESS;
}

static weft_status temp_open(const struct wi_ckpt_run *run, struct wi_ckpt_dir *temp)
{
    char name[sizeof(WI_CKPT_TEMP) + WI_CKPT_ID_HEX];
    struct wi_ckpt_dir folder;
    weft_status st;

    /* What rank 0 says becomes names and numbers of files. */
    if (!wi_ckpt_is_hex(run->id, WI_CKPT_ID_HEX) || (run->parent[0] && wi_ckpt_tag_check(run->parent) < 0) ||
        run->sequence == 0 || run->sequence > WI_CKPT_SEQUENCE_MAX)
        return wi_fail(WEFT_EPROTO, "rank 0 names no possible checkpoint: its id, the one before or its number");
    WI_TRY(wi_ckpt_dir_open(&folder, run->folder));
    snprintf(name, sizeof(name), WI_CKPT_TEMP "%s", run->id);
    st = wi_ckpt_dir_open_in(temp, &folder, name);
    wi_ckpt_dir_close(&folder);
    return st == WEFT_ENOTFOUND ? wi_fail(st, "%s; the folder has to be the same one on all ranks", wi_fail_text())
                                : st;
}

/* The temporary folder is there, or its opening has failed here: `st`. */
static weft_status write_and_commit(struct wi_ckpt *ckpt, struct wi_ckpt_commit *commit, const struct wi_ckpt_dir *temp,
                                    weft_status st)
{
    struct wi_ckpt_group *group = &ckpt->group;
    struct wi_ckpt_digest digest = {0}, *digests;
    struct wi_ckpt_word word = {0};
    uint64_t began = wi_now_ns();

    if (st >= 0)
        st = wi_ckpt_write(&ckpt->run, (uint32_t)group->rank, temp, &digest);
    ckpt->run.result.write_ns = wi_now_ns() - began;
    wi_ckpt_snapshot_free(&ckpt->snapshot);
    word.numbers[0] = digest.bytes;
    word.numbers[1] = digest.hash.half[0];
    word.numbers[2] = digest.hash.half[1];
    wi_ckpt_progress_phase(ckpt->run.options.progress, WI_CKPT_COMMITTING, ckpt->run.result.bytes);
    WI_TRY(wi_ckpt_gather(group, &word, st));
    if (group->rank == 0) {
        digests = wi_calloc((size_t)group->nranks, sizeof(*digests));
        for (int r = 0; digests && r < group->nranks; r++)
            digests[r] = (struct wi_ckpt_digest){group->words[r].numbers[0],
                                                 {{group->words[r].numbers[1], group->words[r].numbers[2]}}};
        st = digests ? wi_ckpt_commit_do(commit, &ckpt->run, digests, group->nranks)
                     : wi_fail(WEFT_ENOMEM, "out of memory for the indexes of %d ranks", group->nranks);
        wi_free(digests);
    }
    return wi_ckpt_tell(group, &word, st);
}

static weft_status save(struct wi_ckpt *ckpt, struct wi_ckpt_commit *commit)
{
    struct wi_ckpt_dir temp = {.fd = -1};
    weft_status st = WEFT_SUCCESS;

    WI_TRY(agree_to_save(ckpt));
    if (ckpt->group.rank == 0)
        st = wi_ckpt_commit_prepare(commit, &ckpt->run);
    WI_TRY(agree_where(ckpt, st));
    st = write_and_commit(ckpt, commit, &temp, temp_open(&ckpt->run, &temp));
    wi_ckpt_dir_close(&temp);
    return st;
}

static void finish(struct wi_ckpt *ckpt, weft_status st)
{
    wi_ckpt_text_copy(ckpt->outcome_text, sizeof(ckpt->outcome_text), st < 0 ? wi_fail_text() : "");
    ckpt->outcome = st;
    ckpt->run.result.total_ns = wi_now_ns() - ckpt->begun_ns;
    wi_ckpt_progress_phase(ckpt->run.options.progress, WI_CKPT_NOTHING, 0);
    wi_ckpt_snapshot_free(&ckpt->snapshot);
    pthread_mutex_lock(&ckpt->mutex);
    ckpt->done = 1;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->mutex);
}

static void *background(void *arg)
{
    struct wi_ckpt *ckpt = arg;
    struct wi_ckpt_commit commit = {.folder = {.fd = -1}, .temp = {.fd = -1}, .lock = -1};
    weft_status st;

    if (ckpt->run.begun >= 0)
        snapshot(ckpt);
    st = save(ckpt, &commit);
    wi_ckpt_commit_fini(&commit);
    finish(ckpt, st);
    return NULL;
}

/* ---- The caller's side ---- */

weft_status wi_ckpt_create(weft_comm *comm, uint64_t timeout_ns, struct wi_ckpt **ckpt)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *dup = NULL;
    struct wi_ckpt *c;
    weft_status st;

    config.name = "zero.checkpoint";
    config.timeout_ns = timeout_ns ? timeout_ns : DEFAULT_TIMEOUT_NS;
    if (comm) {
        st = weft_comm_dup(comm, &config, &dup);
        if (st < 0)
            return wi_fail(st, "checkpoint: %s", weft_thread_error());
    }
    c = wi_calloc(1, sizeof(*c));
    st = c ? wi_ckpt_group_init(&c->group, dup) : wi_fail(WEFT_ENOMEM, "out of memory for checkpoints");
    if (st < 0) {
        wi_free(c);
        if (dup)
            weft_comm_destroy(dup);
        return st;
    }
    wi_ckpt_snapshot_init(&c->snapshot);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->outcome = WEFT_SUCCESS;
    *ckpt = c;
    return WEFT_SUCCESS;
}

/* Join the thread, if there is one, and free what the save had. */
static void join(struct wi_ckpt *ckpt)
{
    if (!ckpt->has_thread)
        return;
    pthread_join(ckpt->thread, NULL);
    ckpt->has_thread = 0;
    if (!ckpt->run.options.keep_buffer)
        wi_ckpt_buffer_fini(&ckpt->buffer);
    wi_ckpt_run_fini(&ckpt->run);
}

weft_status wi_ckpt_destroy(struct wi_ckpt *ckpt)
{
    weft_status st = WEFT_SUCCESS;

    if (!ckpt)
        return WEFT_SUCCESS;
    int asked = !is_saving(ckpt);

    join(ckpt);
    if (!asked && ckpt->outcome < 0)
        wi_log(WEFT_LOG_WARN, "zero.ckpt.lost", "a checkpoint has failed, which nobody has waited for: %s",
               ckpt->outcome_text);
    if (ckpt->group.comm) {
        st = weft_comm_destroy(ckpt->group.comm);
        if (st < 0)
            st = wi_fail(st, "checkpoint: %s", weft_thread_error());
    }
    wi_ckpt_group_fini(&ckpt->group);
    wi_ckpt_buffer_fini(&ckpt->buffer);
    wi_ckpt_snapshot_fini(&ckpt->snapshot);
    pthread_mutex_destroy(&ckpt->mutex);
    pthread_cond_destroy(&ckpt->changed);
    wi_free(ckpt);
    return st;
}

static weft_status begun(struct wi_ckpt *ckpt, weft_status st)
{
    ckpt->run.begun = st;
    ckpt->silent = st < 0;
    wi_ckpt_text_copy(ckpt->run.begun_text, sizeof(ckpt->run.begun_text), st < 0 ? wi_fail_text() : "");
    return st;
}

weft_status wi_ckpt_prepare(struct wi_ckpt *ckpt, const struct wi_ckpt_piece *pieces, size_t npieces)
{
    if (ckpt->has_thread) /* it has the buffer */
        return WEFT_SUCCESS;
    return wi_ckpt_buffer_prepare(&ckpt->buffer, wi_ckpt_run_room(pieces, npieces));
}

weft_status wi_ckpt_begin(struct wi_ckpt *ckpt, const char *folder, const char *tag, const struct wi_ckpt_piece *pieces,
                          size_t npieces, const struct wi_ckpt_state *state, const struct wi_ckpt_options *options)
{
    char why[512];
    weft_status st;
    int err;

    if (!ckpt)
        return wi_fail(WEFT_EINVAL, "ckpt is NULL");
    if (ckpt->has_thread && !ckpt->silent)
        return wi_fail(WEFT_EBUSY, "the save of checkpoint \"%s\" has not been waited for", ckpt->run.tag);
    join(ckpt);
    ckpt->begun_ns = wi_now_ns();
    ckpt->done = 0;
    st = wi_ckpt_run_fill(&ckpt->run, &ckpt->buffer, folder, tag, pieces, npieces, state, options);
    st = begun(ckpt, st < 0 ? st : wi_ckpt_snapshot_begin(&ckpt->snapshot, &ckpt->run));
    if (st >= 0 && !ckpt->run.options.in_place)
        wi_ckpt_progress_phase(ckpt->run.options.progress, WI_CKPT_COPYING, ckpt->run.result.bytes);
    err = wi_thread_start(&ckpt->thread, NULL, background, ckpt);
    ckpt->has_thread = err == 0;
    if (err && st >= 0)
        st = begun(ckpt, wi_fail_errno(err, "no thread for a checkpoint"));
    wi_ckpt_text_copy(why, sizeof(why), ckpt->run.begun_text);
    if (err) { /* the other ranks have to hear of it */
        background(ckpt);
        wi_ckpt_run_fini(&ckpt->run);
    }
    return st < 0 ? wi_fail(st, "%s", why) : st;
}

static weft_status outcome(struct wi_ckpt *ckpt, struct wi_ckpt_result *result)
{
    if (ckpt->has_thread && result)
        *result = ckpt->run.result;
    join(ckpt);
    return ckpt->outcome < 0 ? wi_fail(ckpt->outcome, "%s", ckpt->outcome_text) : WEFT_SUCCESS;
}

enum wi_ckpt_newest wi_ckpt_newest(struct wi_ckpt *ckpt)
{
    pthread_mutex_lock(&ckpt->mutex);
    int done = ckpt->done;

    pthread_mutex_unlock(&ckpt->mutex);
    return !is_saving(ckpt) ? WI_CKPT_IDLE : done ? WI_CKPT_ENDED : WI_CKPT_SAVING;
}

weft_status wi_ckpt_poll(struct wi_ckpt *ckpt, struct wi_ckpt_result *result)
{
    int done;

    if (!ckpt)
        return wi_fail(WEFT_EINVAL, "ckpt is NULL");
    pthread_mutex_lock(&ckpt->mutex);
    done = ckpt->done || !ckpt->has_thread;
    pthread_mutex_unlock(&ckpt->mutex);
    return done ? outcome(ckpt, result) : WEFT_INPROGRESS;
}

weft_status wi_ckpt_wait(struct wi_ckpt *ckpt, struct wi_ckpt_result *result)
{
    if (!ckpt)
        return wi_fail(WEFT_EINVAL, "ckpt is NULL");
    pthread_mutex_lock(&ckpt->mutex);
    while (ckpt->has_thread && !ckpt->done)
        pthread_cond_wait(&ckpt->changed, &ckpt->mutex);
    pthread_mutex_unlock(&ckpt->mutex);
    return outcome(ckpt, result);
}
