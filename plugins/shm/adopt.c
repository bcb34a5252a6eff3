/* adopt.c: turn private memory into shared memory in place, and back, without losing its contents.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The new pages are filled and mapped elsewhere first and then moved over the old ones in one call, so every step
 * that can fail comes before the old memory goes. The one that replaces it is undone should it fail half-way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define BLOCK_BYTES ((size_t)4096)

struct map_line {
    uintptr_t start, end;
    char perms[8], name[64];
    unsigned long inode;
};

/* Visit the lines of /proc/self/maps that overlap [start, end) until `fn` returns 0. Returns whether it accepted all bytes; -1: the
 * lines cannot be read (errno). */
static int scan_maps(uintptr_t start, uintptr_t end, int (*fn)(const struct map_line *line, uint64_t arg), uint64_t arg)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct map_line m;
    size_t accepted = 0;
    char line[512];

    if (!maps)
        return -1;
    while (fgets(line, sizeof(line), maps)) {
        m.name[0] = '\0';
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %63s", (unsigned long *)&m.start, (unsigned long *)&m.end, m.perms,
                   &m.inode, m.name) < 4 ||
            m.end <= start || m.start >= end)
            continue;
        if (!fn(&m, arg))
            break;
        accepted += (m.end < end ? m.end : end) - (m.start > start ? m.start : start);
    }
    fclose(maps);
    return accepted == end - start;
}

/* Private, anonymous, readable and writable, and not a stack, which may have to grow. */
static int is_plain(const struct map_line *m, uint64_t unused)
{
    (void)unused;
    return strcmp(m->perms, "rw-p") == 0 && m->inode == 0 && m->name[0] != '/' &&
           (m->name[0] != '[' || strcmp(m->name, "[heap]") == 0 || strncmp(m->name, "[anon:", 6) == 0);
}

static int is_inode(const struct map_line *m, uint64_t inode)
{
    return m->inode == inode;
}

static int is_zero(const unsigned char *block, size_t bytes)
{
    return block[0] == 0 && memcmp(block, block + 1, bytes - 1) == 0;
}

/* Zero pages stay holes: memory that was never touched costs nothing afterwards either. */
static void copy_sparse(unsigned char *to, const unsigned char *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES)
        if (!is_zero(from + at, BLOCK_BYTES))
            memcpy(to + at, from + at, BLOCK_BYTES);
}

/* Move [from, from+bytes) over `to`. When the kernel fails after it has unmapped `to`, the contents are put back into
 * fresh private memory from the copy. */
static int move_over(void *to, unsigned char *from, size_t bytes)
{
    unsigned char resident;

    if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
        return 1;
    if (mincore(to, BLOCK_BYTES, &resident) != 0 && errno == ENOMEM &&
        mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        copy_sparse(to, from, bytes);
    munmap(from, bytes);
    return 0;
}

weft_status wi_shm_make_shared(const struct weft_host *host, struct wi_shm_segment *segment)
{
    size_t bytes = segment->end - segment->start;
    unsigned char *copy;
    weft_status status;
    int fd, plain = scan_maps(segment->start, segment->end, is_plain, 0);

    if (plain < 0)
        return wi_shm_explain_errno(host, errno, "read /proc/self/maps");
    if (!plain) {
        host->explain(host->impl, WEFT_ENOTSUP, "only private anonymous memory can be made shareable in place");
        return WEFT_ENOTSUP;
    }
    status = wi_shm_memfd(host, "weft-adopted", bytes, &fd);
    if (status != WEFT_SUCCESS)
        return status;
    copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (copy == MAP_FAILED) {
        status = wi_shm_explain_errno(host, errno, "map shared memory");
        close(fd);
        return status;
    }
    if (bytes >= HUGE_BYTES)
        madvise(copy, bytes, MADV_HUGEPAGE);
    copy_sparse(copy, (unsigned char *)segment->start, bytes);
    if (!move_over((void *)segment->start, copy, bytes)) {
        status = wi_shm_explain_errno(host, ENOMEM, "put shared memory in place");
        close(fd);
        return status;
    }
    segment->fd = fd;
    return WEFT_SUCCESS;
}

int wi_shm_make_private(const struct wi_shm_segment *segment)
{
    size_t bytes = segment->end - segment->start;
    unsigned char *copy;
    struct stat st;
    int mapped;

    /* The application freed this memory meanwhile: it may belong to another allocation now. */
    mapped = fstat(segment->fd, &st) == 0 ? scan_maps(segment->start, segment->end, is_inode, (uint64_t)st.st_ino) : 0;
    if (mapped <= 0)
        return mapped == 0;
    copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return 0;
    if (bytes >= HUGE_BYTES)
        madvise(copy, bytes, MADV_HUGEPAGE);
    copy_sparse(copy, (const unsigned char *)segment->start, bytes);
    return move_over((void *)segment->start, copy, bytes);
}
