/* transport_memory.c: shareable memory.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transport.h"

#define MEM_BYTES ((size_t)3 << 20)

/* Descriptions travel through the shared words. */
static void show(struct tc_rank *r, const struct weft_mem_desc *desc)
{
    memcpy(tc_word(r, 2 * r->rank), desc, sizeof(*desc));
    wt_sync();
}

static struct weft_mem_desc shown(struct tc_rank *r, int rank)
{
    struct weft_mem_desc desc;
    memcpy(&desc, tc_word(r, 2 * rank), sizeof(desc));
    return desc;
}

/* Both ranks map the other's memory, read what is there, write their own mark, and look at their own again. */
static void round_trip(struct tc_rank *r, unsigned char *memory, size_t bytes)
{
    struct weft_mem_desc desc, theirs;
    int peer = 1 - r->rank;
    void *mapped = NULL, *again = NULL;

    tc_fill(memory, bytes, (uint32_t)r->rank);
    r->ops->mem_describe(r->endpoint, memory + 100, bytes - 100, &desc);
    WT_REQUIRE(desc.segment != 0);
    WT_CHECK_INT(desc.bytes, bytes - 100);
    WT_CHECK_INT(desc.address, (uintptr_t)memory + 100);
    show(r, &desc);
    theirs = shown(r, peer);
    WT_REQUIRE_OK(r->ops->mem_map(r->group, peer, &theirs, &mapped));
    WT_REQUIRE_OK(r->ops->mem_map(r->group, peer, &theirs, &again));
    WT_CHECK(mapped == again);
    for (size_t i = 0; i < bytes - 100; i += 997)
        WT_CHECK_INT(((unsigned char *)mapped)[i],
                     (unsigned char)((i + 100) * 7 + ((i + 100) >> 8) * 13 + (uint32_t)peer));
    wt_sync();
    ((unsigned char *)mapped)[bytes - 101] = (unsigned char)(0x50 + r->rank);
    wt_sync();
    WT_CHECK_INT(memory[bytes - 1], 0x50 + peer);
    wt_sync();
}

void tc_case_mem_alloc(struct tc_rank *r)
{
    struct weft_mem_desc desc;
    void *memory, *small;

    tc_group(r);
    WT_REQUIRE_OK(r->ops->mem_alloc(r->endpoint, MEM_BYTES + 1, &memory));
    WT_REQUIRE_OK(r->ops->mem_alloc(r->endpoint, 1, &small));
    WT_CHECK_INT((uintptr_t)memory % (size_t)sysconf(_SC_PAGESIZE), 0);
    WT_CHECK(((unsigned char *)memory)[0] == 0 && memcmp(memory, (char *)memory + 1, MEM_BYTES) == 0);
    round_trip(r, memory, MEM_BYTES + 1);
    if (!r->fixture->threads) {
        r->ops->mem_describe(r->endpoint, (char *)memory + MEM_BYTES, MEM_BYTES, &desc);
        WT_CHECK_INT(desc.segment, 0); /* reaches beyond its end */
        r->ops->mem_describe(r->endpoint, &desc, sizeof(desc), &desc);
        WT_CHECK_INT(desc.segment, 0);
    }
    WT_CHECK_OK(r->ops->mem_free(r->endpoint, memory));
    WT_CHECK_STATUS(r->ops->mem_free(r->endpoint, memory), WEFT_EINVAL);
    WT_CHECK_OK(r->ops->mem_free(r->endpoint, small));
    wt_sync();
}

void tc_case_mem_adopt(struct tc_rank *r)
{
    size_t bytes = MEM_BYTES + 12345, adopted_bytes = 0;
    unsigned char *memory = malloc(bytes), *at;
    void *adopted = NULL;

    WT_REQUIRE(memory != NULL);
    tc_group(r);
    tc_fill(memory, bytes, 99);
    for (int round = 0; round < 3; round++) {
        WT_REQUIRE_OK(r->ops->mem_adopt(r->endpoint, memory + 7, bytes - 7, &adopted, &adopted_bytes));
        at = adopted;
        WT_REQUIRE(at >= memory && at + adopted_bytes <= memory + bytes && adopted_bytes >= MEM_BYTES);
        WT_CHECK(tc_filled(memory, bytes, 99));
        round_trip(r, at, adopted_bytes);
        tc_fill(memory, bytes, 99);
        WT_CHECK_OK(r->ops->mem_release(r->endpoint, adopted));
        WT_CHECK(tc_filled(memory, bytes, 99));
        memset(memory, 3, bytes);
        tc_fill(memory, bytes, 99);
        wt_sync();
    }
    free(memory);
}

/* Freed memory cannot be mapped by its old description, and mappings of it go. */
void tc_case_mem_stale(struct tc_rank *r)
{
    struct weft_mem_desc desc, old, fresh;
    void *memory, *mapped;

    tc_group(r);
    WT_REQUIRE_OK(r->ops->mem_alloc(r->endpoint, MEM_BYTES, &memory));
    r->ops->mem_describe(r->endpoint, memory, MEM_BYTES, &desc);
    show(r, &desc);
    old = shown(r, 1 - r->rank);
    WT_REQUIRE_OK(r->ops->mem_map(r->group, 1 - r->rank, &old, &mapped));
    wt_sync();
    WT_REQUIRE_OK(r->ops->mem_free(r->endpoint, memory));
    WT_REQUIRE_OK(r->ops->mem_alloc(r->endpoint, MEM_BYTES, &memory));
    tc_fill(memory, MEM_BYTES, 5);
    r->ops->mem_describe(r->endpoint, memory, MEM_BYTES, &desc);
    show(r, &desc);
    fresh = shown(r, 1 - r->rank);
    WT_CHECK(fresh.segment != old.segment);
    WT_CHECK_STATUS(r->ops->mem_map(r->group, 1 - r->rank, &old, &mapped), WEFT_ENOTFOUND);
    WT_REQUIRE_OK(r->ops->mem_map(r->group, 1 - r->rank, &fresh, &mapped));
    WT_CHECK(tc_filled(mapped, MEM_BYTES, 5));
    fresh.offset = MEM_BYTES - 10;
    fresh.bytes = 20;
    WT_CHECK_STATUS(r->ops->mem_map(r->group, 1 - r->rank, &fresh, &mapped), WEFT_EPROTO);
    wt_sync();
    WT_CHECK_OK(r->ops->mem_free(r->endpoint, memory));
}

void tc_case_mem_get(struct tc_rank *r)
{
    unsigned char *mine = malloc(MEM_BYTES), *copy = malloc(MEM_BYTES);
    struct weft_mem_desc desc, theirs;
    weft_status status;

    WT_REQUIRE(mine && copy);
    tc_group(r);
    tc_fill(mine, MEM_BYTES, (uint32_t)r->rank + 40);
    r->ops->mem_describe(r->endpoint, mine, MEM_BYTES, &desc);
    show(r, &desc);
    theirs = shown(r, 1 - r->rank);
    status = r->ops->mem_get(r->group, 1 - r->rank, theirs.address + 3, copy, MEM_BYTES - 3);
    if (status != WEFT_ENOTSUP) { /* where the kernel forbids it */
        WT_CHECK_STATUS(status, WEFT_SUCCESS);
        memmove(copy + 3, copy, MEM_BYTES - 3);
        memcpy(copy,
               (unsigned char[]){(unsigned char)(41 - r->rank), (unsigned char)(48 - r->rank),
                                 (unsigned char)(55 - r->rank)},
               3);
        WT_CHECK(tc_filled(copy, MEM_BYTES, 41 - (uint32_t)r->rank));
        if (!r->fixture->threads)
            WT_CHECK_STATUS(r->ops->mem_get(r->group, 1 - r->rank, 16, copy, 100), WEFT_EPROTO);
    }
    wt_sync();
    free(mine);
    free(copy);
}

void tc_case_mem_put(struct tc_rank *r)
{
    unsigned char *mine = malloc(MEM_BYTES + 64), *from = malloc(MEM_BYTES);
    struct weft_mem_desc desc, theirs;
    weft_status status;

    WT_REQUIRE(mine && from);
    tc_group(r);
    memset(mine, 77, MEM_BYTES + 64);
    tc_fill(from, MEM_BYTES, (uint32_t)r->rank + 50);
    r->ops->mem_describe(r->endpoint, mine, MEM_BYTES + 64, &desc);
    show(r, &desc);
    theirs = shown(r, 1 - r->rank);
    status = r->ops->mem_put(r->group, 1 - r->rank, theirs.address + 5, from, MEM_BYTES);
    wt_sync();
    if (status != WEFT_ENOTSUP) { /* where the kernel forbids it */
        WT_CHECK_STATUS(status, WEFT_SUCCESS);
        WT_CHECK(mine[4] == 77 && mine[MEM_BYTES + 5] == 77);
        WT_CHECK(tc_filled(mine + 5, MEM_BYTES, 51 - (uint32_t)r->rank));
        if (!r->fixture->threads)
            WT_CHECK_STATUS(r->ops->mem_put(r->group, 1 - r->rank, 16, from, 100), WEFT_EPROTO);
    }
    wt_sync();
    free(mine);
    free(from);
}

static void adopt_refused(struct tc_rank *r, void *memory, size_t bytes)
{
    void *adopted;
    size_t adopted_bytes;

    r->explained[0] = '\0';
    WT_CHECK_STATUS(r->ops->mem_adopt(r->endpoint, memory, bytes, &adopted, &adopted_bytes), WEFT_ENOTSUP);
    WT_CHECK(r->explained[0] != '\0');
}

void tc_case_mem_refused(struct tc_rank *r)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), adopted_bytes;
    unsigned char stack[4 * 4096];
    unsigned char *shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned char *gap = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    void *memory = NULL, *adopted;

    memset(stack, 1, sizeof(stack));
    WT_REQUIRE(shared != MAP_FAILED && gap != MAP_FAILED);
    adopt_refused(r, stack, sizeof(stack));
    adopt_refused(r, shared, 4 * page);
    adopt_refused(r, gap, 100); /* no whole page */
    adopt_refused(r, (void *)(uintptr_t)tc_case_mem_refused, 4 * page);
    munmap(gap + page, page);
    adopt_refused(r, gap, 4 * page);
    WT_REQUIRE_OK(r->ops->mem_adopt(r->endpoint, gap + 2 * page, 2 * page, &adopted, &adopted_bytes));
    adopt_refused(r, gap + 2 * page, 2 * page); /* twice */
    WT_CHECK_STATUS(r->ops->mem_free(r->endpoint, adopted), WEFT_EINVAL);
    WT_CHECK_OK(r->ops->mem_release(r->endpoint, adopted));
    WT_CHECK_STATUS(r->ops->mem_release(r->endpoint, adopted), WEFT_EINVAL);
    WT_CHECK_STATUS(r->ops->mem_alloc(r->endpoint, 0, &memory), WEFT_EINVAL);
    WT_CHECK_STATUS(r->ops->mem_free(r->endpoint, NULL), WEFT_EINVAL);
    WT_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    WT_CHECK_STATUS(r->ops->mem_alloc(r->endpoint, 2 << 20, &memory), WEFT_ENOSPC);
    WT_CHECK(strstr(r->explained, "ulimit -f") != NULL);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    WT_CHECK_OK(r->ops->mem_alloc(r->endpoint, 2 << 20, &memory)); /* usable again; close gives it back */
    munmap(shared, 4 * page);
    munmap(gap, 4 * page);
}
