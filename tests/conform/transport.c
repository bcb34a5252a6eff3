/* transport.c: what the cases of the transport suite stand on.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transport.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/channel.h"
#include "net/transports.h"
#include "transport_side.h"

#define SLOT_BYTES 1536
#define WORDS 64

/* Seen by all ranks, threads or processes: made before they are. */
struct tc_shared {
    size_t address_bytes[TC_MAX_RANKS];
    unsigned char slots[TC_MAX_RANKS][SLOT_BYTES];
    uint64_t words[WORDS][16];
};

struct start {
    const struct tc_fixture *fixture;
    tc_case_fn fn;
    struct tc_shared *shared;
    struct tc_side_shared *side;
};

static void host_log(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
{
    (void)impl, (void)level, (void)event, (void)format;
}

static uint64_t host_now(void)
{
    return wi_now_ns();
}

static void host_explain(void *impl, weft_status status, const char *format, ...)
{
    struct tc_rank *r = impl;
    va_list ap;

    r->explained_status = status;
    va_start(ap, format);
    vsnprintf(r->explained, sizeof(r->explained), format, ap);
    va_end(ap);
}

weft_status tc_all_gather(void *arg, const void *mine, size_t mine_bytes, void *all)
{
    struct tc_rank *r = arg;

    WT_REQUIRE(mine_bytes <= SLOT_BYTES);
    memcpy(r->shared->slots[r->rank], mine, mine_bytes);
    if (r->tamper)
        r->tamper(r, r->rounds, r->shared->slots[r->rank], mine_bytes);
    r->rounds++;
    wt_sync();
    for (int i = 0; i < r->nranks; i++)
        memcpy((unsigned char *)all + (size_t)i * mine_bytes, r->shared->slots[i], mine_bytes);
    wt_sync();
    return WEFT_SUCCESS;
}

static struct wi_settings *read_settings(struct tc_rank *r)
{
    const struct weft_plugin *plugin = r->fixture->plugin;
    struct wi_settings *settings;
    char module[32];
    size_t i;

    for (i = 0; plugin->name[i] && i < sizeof(module) - 1; i++)
        module[i] = (char)toupper((unsigned char)plugin->name[i]);
    module[i] = '\0';
    WT_REQUIRE_OK(wi_settings_create(NULL, r->fixture->settings, &settings));
    r->settings = calloc(1, plugin->settings_bytes + 1);
    WT_REQUIRE(r->settings != NULL);
    if (plugin->settings)
        WT_REQUIRE_OK(wi_settings_read(settings, module, plugin->settings, r->settings));
    return settings;
}

static void exchange_addresses(struct tc_rank *r)
{
    unsigned char *mine = r->shared->slots[r->rank];
    size_t bytes = 0;

    WT_REQUIRE_OK(r->ops->address(r->endpoint, mine, WEFT_ADDRESS_MAX, &bytes));
    WT_REQUIRE(bytes <= WEFT_ADDRESS_MAX);
    r->shared->address_bytes[r->rank] = bytes;
    wt_sync();
    for (int i = 0; i < r->nranks; i++) {
        void *copy = malloc(WEFT_ADDRESS_MAX);
        WT_REQUIRE(copy != NULL);
        memcpy(copy, r->shared->slots[i], r->shared->address_bytes[i]);
        r->addresses[i] = copy;
        r->address_bytes[i] = r->shared->address_bytes[i];
        r->member[i] = 1;
    }
    wt_sync();
}

static void rank_body(int rank, int nranks, void *arg)
{
    const struct start *start = arg;
    struct tc_rank *r = calloc(1, sizeof(*r));

    WT_REQUIRE(r != NULL);
    r->fixture = start->fixture;
    r->shared = start->shared;
    r->rank = rank;
    r->nranks = nranks;
    r->host = (struct weft_host){.bytes = sizeof(r->host),
                                 .impl = r,
                                 .log = host_log,
                                 .now_ns = host_now,
                                 .explain = host_explain,
                                 .fd_keep = wi_fd_keep,
                                 .fd_close = wi_fd_close,
                                 .process_self = wi_process_self,
                                 .process_state = wi_process_state};
    if (start->side)
        WT_REQUIRE((r->side = tc_side_join(start->side, rank, &r->host)) != NULL);
    if (r->fixture->host)
        r->fixture->host(&r->host);
    r->read = read_settings(r);
    WT_REQUIRE_OK(wi_transport_complete(r->fixture->plugin, &r->raw));
    WT_REQUIRE_OK(r->raw.open(&r->host, r->settings, &r->endpoint));
    r->ops = &r->raw;
    if (r->fixture->channels) {
        WT_REQUIRE_OK(wi_channel_wrap(r->fixture->plugin, &r->host, &r->raw, r->endpoint, &r->endpoint));
        r->ops = &wi_channel_ops;
    }
    exchange_addresses(r);
    start->fn(r);
    if (r->group)
        tc_group_end(r, 0);
    r->ops->close(r->endpoint);
    for (int i = 0; i < nranks; i++)
        free((void *)r->addresses[i]);
    wi_settings_destroy(r->read);
    tc_side_free(r->side);
    free(r->settings);
    free(r);
}

static struct tc_shared *shared_new(void)
{
    void *map = mmap(NULL, sizeof(struct tc_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* 0: there is no memory. */
static int prepare(struct start *start, const struct tc_fixture *fixture, tc_case_fn fn, int nranks)
{
    int has_side = (fixture->plugin->caps & WEFT_CAP_SIDE) != 0;

    *start = (struct start){fixture, fn, shared_new(), has_side ? tc_side_shared_new(nranks) : NULL};
    return start->shared && (start->side || !has_side);
}

static void clean_up(struct start *start)
{
    if (start->shared)
        munmap(start->shared, sizeof(*start->shared));
    if (start->side)
        tc_side_shared_free(start->side);
}

int tc_run(const struct tc_fixture *fixture, tc_case_fn fn, int nranks, unsigned deadline_ms)
{
    struct start start;
    int failed = -1;

    if (!prepare(&start, fixture, fn, nranks)) {
        clean_up(&start);
        return -1;
    }
    failed = fixture->threads ? wt_threads(nranks, rank_body, &start, deadline_ms)
                              : wt_run(nranks, rank_body, &start, deadline_ms);
    clean_up(&start);
    return failed;
}

int tc_run_killed(const struct tc_fixture *fixture, tc_case_fn fn, int nranks, int first, int signum,
                  unsigned deadline_ms)
{
    struct start start;
    struct wt_job *job;
    int failed = -1;

    if (!prepare(&start, fixture, fn, nranks)) {
        clean_up(&start);
        return -1;
    }
    job = wt_job_start(nranks, rank_body, &start);
    for (int rank = first; job && rank < nranks; rank++)
        wt_job_expect_signal(job, rank, signum);
    if (job)
        failed = wt_job_wait(job, deadline_ms);
    clean_up(&start);
    return failed;
}

weft_status tc_group_try(struct tc_rank *r)
{
    r->groups_made++;
    r->config = (struct weft_group_config){.bytes = sizeof(r->config),
                                           .comm_id = {0x77656674, r->groups_made},
                                           .rank = r->rank,
                                           .nranks = r->nranks,
                                           .addresses = r->addresses,
                                           .address_bytes = r->address_bytes,
                                           .member = r->member,
                                           .oversubscribed = 1,
                                           .deadline_ns = wi_deadline_ns(10000000000ull),
                                           .all_gather = tc_all_gather,
                                           .all_gather_arg = r,
                                           .nchans = WEFT_CHAN_MAX,
                                           .side = r->side};
    if (r->side)
        tc_side_begin(r->side, r->groups_made);
    memset(&r->failure, 0, sizeof(r->failure));
    r->failures = r->rounds = 0;
    return r->ops->group_create(r->endpoint, &r->config, &r->group);
}

const char *tc_explained(const struct tc_rank *r)
{
    return r->fixture->channels && wi_fail_text()[0] ? wi_fail_text() : r->explained;
}

void tc_group(struct tc_rank *r)
{
    weft_status status = tc_group_try(r);

    if (status != WEFT_SUCCESS)
        wt_fail(__FILE__, __LINE__, "group_create: %s (%s)", weft_status_name(status), tc_explained(r));
    WT_REQUIRE(status == WEFT_SUCCESS);
}

void tc_group_end(struct tc_rank *r, int aborted)
{
    if (r->side)
        tc_side_end(r->side);
    r->ops->group_destroy(r->group, aborted);
    r->group = NULL;
}

uint64_t *tc_word(struct tc_rank *r, int index)
{
    return r->shared->words[index];
}

void tc_sync(struct tc_rank *r)
{
    uint64_t *count = tc_word(r, WORDS - 1),
             round = __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST) / (uint64_t)r->nranks;
    uint64_t deadline = wt_now_ms() + wt_slow_ms(20000);

    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < (round + 1) * (uint64_t)r->nranks) {
        WT_REQUIRE(wt_now_ms() < deadline);
        tc_progress(r);
    }
}

void tc_xfer(struct weft_xfer *x, int peer, uint32_t chan, void *buf, size_t bytes)
{
    *x = (struct weft_xfer){.buf = buf, .bytes = bytes, .peer = peer, .chan = chan, .granule = 1};
    x->info = (struct weft_op_info){.seq = 7, .kind = 3, .count = bytes};
}

void tc_post_send(struct tc_rank *r, struct weft_xfer *x)
{
    weft_status status = r->ops->send(r->group, x);

    if (status != WEFT_SUCCESS)
        wt_fail(__FILE__, __LINE__, "send: %s (%s)", weft_status_name(status), tc_explained(r));
    WT_REQUIRE(status == WEFT_SUCCESS);
}

void tc_post_recv(struct tc_rank *r, struct weft_xfer *x)
{
    weft_status status = r->ops->recv(r->group, x);

    if (status != WEFT_SUCCESS)
        wt_fail(__FILE__, __LINE__, "recv: %s (%s)", weft_status_name(status), tc_explained(r));
    WT_REQUIRE(status == WEFT_SUCCESS);
}

void tc_progress(struct tc_rank *r)
{
    struct weft_peer_failure failure = {.peer = -1};
    int events = r->ops->progress(r->group, &failure);

    if (events < 0) {
        r->failures++;
        r->failure = failure;
        WT_CHECK_INT(failure.status, events);
        WT_CHECK(failure.peer >= 0 && failure.peer < r->nranks && failure.text[0]);
    }
    if (events <= 0)
        sched_yield();
}

void tc_wait(struct tc_rank *r, struct weft_xfer *x, size_t count)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(20000);

    for (size_t i = 0; i < count; i++) {
        while (x[i].state == WEFT_XFER_PENDING && wt_now_ms() < deadline)
            tc_progress(r);
        if (x[i].state == WEFT_XFER_PENDING)
            wt_fail(__FILE__, __LINE__, "transfer %zu of %zu (%zu bytes) is pending at the deadline", i, count,
                    x[i].bytes);
        WT_REQUIRE(x[i].state != WEFT_XFER_PENDING);
    }
}

uint64_t tc_wait_failure(struct tc_rank *r, unsigned deadline_ms)
{
    uint64_t start = wt_now_ms();
    int before = r->failures;

    while (r->failures == before) {
        if (wt_now_ms() - start > wt_slow_ms(deadline_ms))
            return UINT64_MAX;
        tc_progress(r);
    }
    return wt_now_ms() - start;
}

void tc_fill(void *buf, size_t bytes, uint32_t seed)
{
    unsigned char *to = buf;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

int tc_filled(const void *buf, size_t bytes, uint32_t seed)
{
    const unsigned char *from = buf;
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != (unsigned char)(i * 7 + (i >> 8) * 13 + seed))
            return 0;
    return 1;
}

uint32_t tc_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

int tc_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}
