/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up store's state machine. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "net/store.h"

#define STORE_BUCKETS 1024
#define STORE_NRANKS_MAX (1 << 20)
#define STORE_MISSING_MAX 1024
#define STORE_OUT_MAX ((size_t)WI_STORE_SESSION_GETS * (WI_STORE_VALUE_MAX + 128) + 65536)

struct wi_store_entry {
    struct wi_store_entry *next;
    char key[WI_STORE_KEY_MAX + 1];
    unsigned char *value; /* NULL: only waited for */
    size_t value_bytes;
    struct wi_store_session **waiting;
    int nwaiting, capacity;
};

struct wi_store {
    int nranks, njoined;
    char sized_by[80]; /* who said how many ranks there are */
    int64_t *entered;  /* [nranks] newest step; -1 not joined */
    struct wi_store_session *sessions;
    struct wi_store_entry *buckets[STORE_BUCKETS];
    size_t memory_bytes;
    int judged;
    struct wi_store_verdict verdict;
};

struct wi_store *wi_store_create(int nranks)
{
    struct wi_store *store = wi_calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    store->nranks = nranks;
    snprintf(store->sized_by, sizeof(store->sized_by), "rank 0");
    return store;
}

static void session_free(struct wi_store_session *session)
{
    wi_store_buf_fini(&session->out);
    wi_free(session);
}

void wi_store_destroy(struct wi_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < STORE_BUCKETS; i++) {
        for (struct wi_store_entry *e = store->buckets[i], *next; e; e = next) {
            next = e->next;
            wi_free(e->value);
            wi_free(e->waiting);
            wi_free(e);
        }
    }
    for (struct wi_store_session *s = store->sessions, *next; s; s = next) {
        next = s->next;
        session_free(s);
    }
    wi_free(store->entered);
    wi_free(store);
}

int wi_store_complete(const struct wi_store *store)
{
    return store->nranks > 0 && store->njoined == store->nranks;
}

int wi_store_nranks(const struct wi_store *store)
{
    return store->nranks;
}

struct wi_store_session *wi_store_sessions(struct wi_store *store)
{
    return store->sessions;
}

const struct wi_store_verdict *wi_store_verdict_of(const struct wi_store *store)
{
    return store->judged ? &store->verdict : NULL;
}

static void session_tell(struct wi_store_session *session, const struct wi_store_verdict *verdict)
{
    unsigned char text[WI_STORE_VERDICT_MAX];
    size_t bytes = wi_store_verdict_write(verdict, text);
    wi_store_frame_append(&session->out, WI_STORE_VERDICT, NULL, text, bytes);
}

void wi_store_judge(struct wi_store *store, const struct wi_store_verdict *verdict)
{
    if (store->judged)
        return;
    store->judged = 1;
    store->verdict = *verdict;
    for (struct wi_store_session *s = store->sessions; s; s = s->next)
        session_tell(s, verdict);
}

void wi_store_farewell(struct wi_store *store)
{
    if (!wi_store_complete(store)) {
        struct wi_store_verdict verdict = {.status = WEFT_EPEER, .culprit = 0};
        snprintf(verdict.text, sizeof(verdict.text),
                 "rank 0's start-up store ended when %d of %d ranks had joined: rank 0 gave up or was refused",
                 store->njoined, store->nranks);
        wi_store_judge(store, &verdict); /* those that still join wait for nobody */
    }
    for (struct wi_store_session *s = store->sessions; s; s = s->next)
        wi_store_frame_append(&s->out, WI_STORE_CLOSING, NULL, NULL, 0);
}

static struct wi_store_entry *entry_find(struct wi_store *store, const struct wi_store_frame *frame)
{
    size_t bucket = wi_hash64(frame->key, frame->key_bytes, 0) % STORE_BUCKETS;
    for (struct wi_store_entry *e = store->buckets[bucket]; e; e = e->next)
        if (!strcmp(e->key, frame->key))
            return e;
    if (store->memory_bytes + sizeof(struct wi_store_entry) > WI_STORE_MEMORY_MAX)
        return NULL;
    struct wi_store_entry *entry = wi_calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    memcpy(entry->key, frame->key, frame->key_bytes + 1);
    entry->next = store->buckets[bucket];
    store->buckets[bucket] = entry;
    store->memory_bytes += sizeof(*entry);
    return entry;
}

static int answer(struct wi_store_session *session, const struct wi_store_entry *entry)
{
    return wi_store_frame_append(&session->out, WI_STORE_VALUE, entry->key, entry->value, entry->value_bytes);
}

static void session_answered(struct wi_store_session *session, const struct wi_store_entry *entry)
{
    for (int i = 0; i < session->ngets; i++) {
        if (session->gets[i] != entry)
            continue;
        session->gets[i] = session->gets[--session->ngets];
        return;
    }
}

static int store_put(struct wi_store *store, const struct wi_store_frame *frame)
{
    struct wi_store_entry *entry = entry_find(store, frame);
    if (!entry || store->memory_bytes + frame->value_bytes > WI_STORE_MEMORY_MAX)
        return -1;
    unsigned char *value = wi_malloc(frame->value_bytes + 1);
    if (!value)
        return -1;
    if (frame->value_bytes)
        memcpy(value, frame->value, frame->value_bytes);
    store->memory_bytes += frame->value_bytes - entry->value_bytes;
    wi_free(entry->value);
    entry->value = value;
    entry->value_bytes = frame->value_bytes;

    /* A waiter whose queue is full is not reading: the server closes it when it next writes. */
    for (int i = 0; i < entry->nwaiting; i++) {
        answer(entry->waiting[i], entry);
        session_answered(entry->waiting[i], entry);
    }
    entry->nwaiting = 0;
    return 0;
}

/* It is told at once; the others, which wait for such a rank, find in the store why it does not join. */
static void session_refuse(struct wi_store *store, struct wi_store_session *session, const char *text)
{
    struct wi_store_verdict verdict = {.status = WEFT_EINVAL, .culprit = session->rank};
    unsigned char bytes[WI_STORE_VERDICT_MAX];
    struct wi_store_frame refusal = {
        .key = WI_STORE_KEY_REFUSAL, .key_bytes = sizeof(WI_STORE_KEY_REFUSAL) - 1, .value = bytes};
    snprintf(verdict.text, sizeof(verdict.text), "%s", text);
    session->refused = 1;
    session_tell(session, &verdict);
    refusal.value_bytes = wi_store_verdict_write(&verdict, bytes);
    store_put(store, &refusal);
    wi_log(WEFT_LOG_WARN, "store.refused", "%s", text);
}

/* Claims that contradict what is known get a reason and are shown out; the job itself goes on. */
static void session_admit(struct wi_store *store, struct wi_store_session *session, int nranks)
{
    char text[320];
    if (nranks != store->nranks) {
        snprintf(text, sizeof(text), "%s says the job has %d ranks, %s says %d", session->name, nranks, store->sized_by,
                 store->nranks);
        session_refuse(store, session, text);
        return;
    }
    for (struct wi_store_session *s = store->sessions; s; s = s->next) {
        if (s == session || s->rank != session->rank || s->refused)
            continue;
        snprintf(text, sizeof(text), "two processes say they are the same rank: %s and %s", s->name, session->name);
        session_refuse(store, session, text);
        return;
    }
    if (store->judged)
        session_tell(session, &store->verdict);
}

static weft_status store_size(struct wi_store *store, int nranks, const char *name)
{
    if (store->entered)
        return WEFT_SUCCESS;
    if (!store->nranks) {
        store->nranks = nranks;
        snprintf(store->sized_by, sizeof(store->sized_by), "%s", name);
    }
    store->entered = wi_malloc((size_t)store->nranks * sizeof(*store->entered));
    if (!store->entered)
        return WEFT_ENOMEM;
    for (int i = 0; i < store->nranks; i++)
        store->entered[i] = -1;
    return WEFT_SUCCESS;
}

weft_status wi_store_session_open(struct wi_store *store, int rank, int nranks, const char *host, int pid,
                                  struct wi_store_session **session)
{
    return wi_store_session_open_sealed(store, rank, nranks, host, pid, NULL, session);
}

weft_status wi_store_session_open_sealed(struct wi_store *store, int rank, int nranks, const char *host, int pid,
                                         struct wi_auth_stream *seal, struct wi_store_session **session)
{
    if (nranks < 1 || nranks > STORE_NRANKS_MAX || rank < 0 || rank >= nranks)
        return WEFT_EPROTO;
    struct wi_store_session *s = wi_calloc(1, sizeof(*s));
    if (!s)
        return WEFT_ENOMEM;
    snprintf(s->name, sizeof(s->name), "rank %d (%s, pid %d)", rank, host, pid);
    if (store_size(store, nranks, s->name) < 0) {
        wi_free(s);
        return WEFT_ENOMEM;
    }
    wi_store_buf_init(&s->out, STORE_OUT_MAX);
    s->out.seal = seal;
    s->rank = rank;
    s->next = store->sessions;
    store->sessions = s;
    session_admit(store, s, nranks);
    *session = s;
    return WEFT_SUCCESS;
}

static void entry_forget(struct wi_store_entry *entry, const struct wi_store_session *session)
{
    int kept = 0;
    for (int i = 0; i < entry->nwaiting; i++)
        if (entry->waiting[i] != session)
            entry->waiting[kept++] = entry->waiting[i];
    entry->nwaiting = kept;
}

void wi_store_session_close(struct wi_store *store, struct wi_store_session *session)
{
    struct wi_store_session **link = &store->sessions;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    for (int i = 0; i < session->ngets; i++)
        entry_forget(session->gets[i], session);

    int joined = !session->refused && store->entered[session->rank] >= 0;
    if (joined && !session->said_bye) {
        struct wi_store_verdict verdict = {.status = WEFT_EPEER, .culprit = session->rank};
        snprintf(verdict.text, sizeof(verdict.text), "%s is gone: it ended or lost its connection to rank 0",
                 session->name);
        wi_store_judge(store, &verdict);
    }
    session_free(session);
}

static int store_get(struct wi_store *store, struct wi_store_session *session, const struct wi_store_frame *frame)
{
    struct wi_store_entry *entry = entry_find(store, frame);
    if (!entry)
        return -1;
    if (entry->value)
        return answer(session, entry);
    if (session->ngets == WI_STORE_SESSION_GETS)
        return -1;
    if (entry->nwaiting == entry->capacity) {
        int capacity = entry->capacity ? 2 * entry->capacity : 4;
        struct wi_store_session **waiting =
            wi_realloc(entry->waiting, (size_t)capacity * sizeof(struct wi_store_session *));
        if (!waiting)
            return -1;
        entry->waiting = waiting;
        entry->capacity = capacity;
    }
    entry->waiting[entry->nwaiting++] = session;
    session->gets[session->ngets++] = entry;
    return 0;
}

static int store_enter(struct wi_store *store, struct wi_store_session *session, uint64_t step)
{
    int64_t *entered = &store->entered[session->rank];
    if (step > INT64_MAX || (*entered < 0 && step != 0))
        return -1;
    if (*entered < 0) {
        store->njoined++;
        *entered = 0;
        if (wi_store_complete(store)) {
            struct wi_store_frame all = {.key = WI_STORE_KEY_ALL, .key_bytes = sizeof(WI_STORE_KEY_ALL) - 1};
            return store_put(store, &all);
        }
    }
    if (*entered < (int64_t)step)
        *entered = (int64_t)step;
    return 0;
}

static int store_who(struct wi_store *store, struct wi_store_session *session, uint64_t step)
{
    unsigned char list[12 + 4 * STORE_MISSING_MAX];
    uint32_t total = 0;
    size_t bytes = 12;
    for (int i = 0; i < store->nranks; i++) {
        if (store->entered[i] >= 0 && (uint64_t)store->entered[i] >= step)
            continue;
        if (total++ < STORE_MISSING_MAX) {
            wi_put32(list + bytes, (uint32_t)i);
            bytes += 4;
        }
    }
    wi_put64(list, step);
    wi_put32(list + 8, total);
    return wi_store_frame_append(&session->out, WI_STORE_MISSING, NULL, list, bytes);
}

int wi_store_session_frame(struct wi_store *store, struct wi_store_session *session, const struct wi_store_frame *frame)
{
    struct wi_store_verdict verdict;
    if (session->refused)
        return 0;
    if (strlen(frame->key) != frame->key_bytes)
        return -1;
    switch (frame->type) {
    case WI_STORE_PUT:
        return store_put(store, frame);
    case WI_STORE_GET:
        return store_get(store, session, frame);
    case WI_STORE_ENTER:
        return frame->value_bytes == 8 ? store_enter(store, session, wi_get64(frame->value)) : -1;
    case WI_STORE_WHO:
        return frame->value_bytes == 8 ? store_who(store, session, wi_get64(frame->value)) : -1;
    case WI_STORE_FAIL:
        if (wi_store_verdict_read(frame->value, frame->value_bytes, &verdict))
            return -1;
        session->said_bye = 1;
        wi_store_judge(store, &verdict);
        return 0;
    case WI_STORE_BYE:
        session->said_bye = 1;
        return 0;
    default:
        return -1;
    }
}
