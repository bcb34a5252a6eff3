/* shm_world.h: a group of two over shared memory for fuzzers: this process is rank 0, the input speaks for rank 1.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef FUZZ_SHM_WORLD_H
#define FUZZ_SHM_WORLD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "plugins/shm/chan.h"
#include "plugins/shm/share.h"
#include "plugins/shm/shm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* ---- The input, consumed from its start ---- */

struct fz_input {
    const uint8_t *at, *end;
};

__attribute__((unused)) static uint8_t fz_byte(struct fz_input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* What is missing is zero. */
__attribute__((unused)) static void fz_bytes(struct fz_input *in, void *to, size_t n)
{
    size_t left = (size_t)(in->end - in->at), some = n < left ? n : left;

    memset(to, 0, n);
    if (some)
        memcpy(to, in->at, some);
    in->at += some;
}

/* ---- The host ---- */

static char fz_explained[512];

__attribute__((unused, format(printf, 4, 5))) static void fz_log(void *impl, enum weft_log_level level, const char *event,
                                                               const char *format, ...)
{
    (void)impl, (void)level, (void)event, (void)format;
}

__attribute__((unused)) static uint64_t fz_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

__attribute__((unused, format(printf, 3, 4))) static void fz_explain(void *impl, weft_status status, const char *format,
                                                                   ...)
{
    va_list ap;

    (void)impl, (void)status;
    va_start(ap, format);
    vsnprintf(fz_explained, sizeof fz_explained, format, ap);
    va_end(ap);
}

static const struct weft_host fz_host = {
    .bytes = sizeof fz_host, .log = fz_log, .now_ns = fz_now, .explain = fz_explain,
    .process_self = wi_process_self, .process_state = wi_process_state};
static const struct wi_shm_settings fz_settings = {
    .depth = 2, .slot_bytes = 4096, .ring_bytes = 4096, .rndv_bytes = 2048, .map = 1, .cma = 1, .node_id = "", .arena = "auto"};

__attribute__((unused)) static void fz_require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "shm: %s: %s\n", what, fz_explained);
    abort();
}

/* ---- A group that is made already ---- */

static struct wi_shm_endpoint *fz_endpoint;
static unsigned char *fz_memory[2]; /* arenas: control, then bulk */

/* Rank 1's process is this one, too, but rank 0 does not know that: descriptors and memory of it can be reached. */
__attribute__((unused)) static struct wi_shm_group *fz_group(void)
{
    static const unsigned char member[2] = {1, 1};
    struct weft_group_config config = {.bytes = sizeof config, .comm_id = {1, 2}, .nranks = 2, .member = member};
    const void *addresses[2];
    size_t address_bytes[2], bytes;
    struct wi_shm_group *group;

    if (!fz_endpoint)
        fz_require(wi_shm_endpoint_new(&fz_host, &fz_settings, 0, &fz_endpoint) == WEFT_SUCCESS, "endpoint");
    for (int i = 0; i < 2; i++) {
        addresses[i] = &fz_endpoint->identity;
        address_bytes[i] = sizeof fz_endpoint->identity;
    }
    config.addresses = addresses;
    config.address_bytes = address_bytes;
    fz_require(wi_shm_group_new(fz_endpoint, &config, &group) == WEFT_SUCCESS, "group");
    group->peers[0].here = 1;
    group->peers[1].watch = wi_shm_watch_get(&fz_endpoint->watches, &fz_endpoint->identity);
    bytes = group->layout.ctl_bytes + group->layout.bulk_bytes;
    for (int i = 0; i < 2; i++) {
        if (!fz_memory[i])
            fz_memory[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        fz_require(fz_memory[i] != MAP_FAILED, "memory");
        memset(fz_memory[i], 0, sizeof(struct wi_shm_ctl));
        group->arenas[i] = (struct wi_shm_arena){(struct wi_shm_ctl *)fz_memory[i], fz_memory[i] + group->layout.ctl_bytes};
    }
    fz_require(wi_shm_group_start(group, 0) == WEFT_SUCCESS, "start");
    return group;
}

__attribute__((unused)) static void fz_group_end(struct wi_shm_group *group)
{
    wi_shm_group_leave(group, 0);
    wi_shm_group_free(group);
}

#endif
