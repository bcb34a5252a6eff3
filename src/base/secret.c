/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of slots. What is known of a page stands outside of it: in a forked child the page is all zeros. */
#include "base/secret.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

#define PAGE_BYTES ((size_t)16384) /* a multiple of every page size but 64 KiB, where the kernel rounds up */
#define PAGE_SLOTS (PAGE_BYTES / WI_SECRET_MAX)

struct page {
    struct page *next;
    unsigned char *slots;
    unsigned nused;
    uint64_t used[PAGE_SLOTS / 64];
};

_Static_assert(PAGE_SLOTS % 64 == 0, "whole words of slots");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct page *pages; /* those with room first */

static struct page *page_create(void)
{
    struct page *page = wi_calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    page->slots = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page->slots == MAP_FAILED) {
        wi_free(page);
        return NULL;
    }
    /* Each is as much as the kernel grants: an old one has no MADV_WIPEONFORK, a limit may forbid locking. Not
     * MADV_DONTFORK: a child that cleans up what it inherited must read zeros, not crash. */
    madvise(page->slots, PAGE_BYTES, MADV_DONTDUMP);
    madvise(page->slots, PAGE_BYTES, MADV_WIPEONFORK);
    (void)mlock(page->slots, PAGE_BYTES);
    page->next = pages;
    pages = page;
    return page;
}

static void page_unlink(struct page *page)
{
    struct page **link = &pages;
    while (*link != page)
        link = &(*link)->next;
    *link = page->next;
}

static void *slot_take(struct page *page)
{
    unsigned word = 0;
    while (page->used[word] == UINT64_MAX)
        word++;
    unsigned bit = (unsigned)__builtin_ctzll(~page->used[word]);
    page->used[word] |= UINT64_C(1) << bit;
    page->nused++;
    return page->slots + (word * 64 + bit) * WI_SECRET_MAX;
}

void *wi_secret_alloc(size_t bytes)
{
    if (bytes > WI_SECRET_MAX)
        return NULL;
    pthread_mutex_lock(&lock);
    struct page *page = pages && pages->nused < PAGE_SLOTS ? pages : page_create();
    void *slot = page ? slot_take(page) : NULL;
    if (page && page->nused == PAGE_SLOTS && page->next) {
        /* Full pages go to the end. */
        struct page **last = &page->next;
        while (*last)
            last = &(*last)->next;
        pages = page->next;
        page->next = NULL;
        *last = page;
    }
    pthread_mutex_unlock(&lock);
    return slot;
}

static struct page *page_of(const unsigned char *slot)
{
    struct page *page = pages;
    while (page && (slot < page->slots || slot >= page->slots + PAGE_BYTES))
        page = page->next;
    return page;
}

void wi_secret_free(void *secret)
{
    if (!secret)
        return;
    explicit_bzero(secret, WI_SECRET_MAX);
    pthread_mutex_lock(&lock);
    struct page *page = page_of(secret);
    if (page) {
        unsigned slot = (unsigned)(((unsigned char *)secret - page->slots) / WI_SECRET_MAX);
        page->used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
        page->nused--;
        page_unlink(page);
        if (page->nused) {
            page->next = pages;
            pages = page;
        } else {
            munmap(page->slots, PAGE_BYTES);
            wi_free(page);
        }
    }
    pthread_mutex_unlock(&lock);
}
