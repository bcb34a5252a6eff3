/* segment.c: see segment.h.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define INODE_BITS 44

uint64_t wi_shm_segment_number(int fd, uint64_t inode)
{
    return (uint64_t)fd << INODE_BITS | (inode & ((1ull << INODE_BITS) - 1));
}

int wi_shm_segment_fd(uint64_t number)
{
    return (int)(number >> INODE_BITS);
}

int wi_shm_segment_is(uint64_t number, uint64_t inode)
{
    return wi_shm_segment_number(wi_shm_segment_fd(number), inode) == number;
}

weft_status wi_shm_explain_errno(const struct weft_host *host, int error, const char *what)
{
    weft_status status = error == ENOSPC || error == EDQUOT || error == EFBIG ? WEFT_ENOSPC
                         : error == ENOMEM                                    ? WEFT_ENOMEM
                         : error == EMFILE || error == ENFILE                 ? WEFT_ENOFILES
                                                                              : WEFT_ESYS;
    const char *advice = status == WEFT_ENOSPC     ? "; free space in /dev/shm or raise the limit"
                         : status == WEFT_ENOMEM   ? "; free memory, or raise ulimit -v or vm.max_map_count"
                         : status == WEFT_ENOFILES ? "; raise ulimit -n"
                                                   : "";
    char text[128];

    host->explain(host->impl, status, "could not %s: %s%s", what, strerror_r(error, text, sizeof(text)), advice);
    return status;
}

weft_status wi_shm_file_limit(const struct weft_host *host, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
        return WEFT_SUCCESS;
    host->explain(host->impl, WEFT_ENOSPC, "%zu bytes of shared memory exceed the file size limit; raise ulimit -f",
                  bytes);
    return WEFT_ENOSPC;
}

weft_status wi_shm_memfd(const struct weft_host *host, const char *name, size_t bytes, int *fd)
{
    weft_status status = wi_shm_file_limit(host, bytes);
    int made, error;

    if (status != WEFT_SUCCESS)
        return status;
    made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return wi_shm_explain_errno(host, errno, "make shared memory");
    if (ftruncate(made, (off_t)bytes) != 0 ||
        fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        error = errno;
        close(made);
        return wi_shm_explain_errno(host, error, "size shared memory");
    }
    *fd = made;
    return WEFT_SUCCESS;
}

int wi_shm_open_descriptor(uint32_t pid, int fd)
{
    char path[64];
    struct stat st;
    int link, opened = -1, error = ESTALE;

    snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
    link = open(path, O_PATH | O_CLOEXEC);
    if (link < 0)
        return -1;
    if (fstat(link, &st) == 0 && S_ISREG(st.st_mode)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", link);
        opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        error = errno;
    }
    close(link);
    errno = error;
    return opened;
}

weft_status wi_shm_segments_init(struct wi_shm_segments *segments)
{
    segments->all = NULL;
    segments->count = segments->capacity = 0;
    return pthread_rwlock_init(&segments->lock, NULL) == 0 ? WEFT_SUCCESS : WEFT_ENOMEM;
}

/* First segment that ends behind `address`. */
static size_t lower_bound(const struct wi_shm_segments *segments, uintptr_t address)
{
    size_t low = 0, high = segments->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segments->all[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t wi_shm_segment_find(struct wi_shm_segments *segments, const void *ptr, size_t bytes, uint64_t *offset)
{
    uintptr_t start = (uintptr_t)ptr;
    uint64_t number = 0;

    if (__atomic_load_n(&segments->count, __ATOMIC_RELAXED) == 0)
        return 0; /* who has just made one has told no other thread of it without ordering */
    pthread_rwlock_rdlock(&segments->lock);
    size_t i = lower_bound(segments, start);
    if (i < segments->count) {
        const struct wi_shm_segment *segment = &segments->all[i];
        if (start >= segment->start && bytes <= segment->end - start) {
            number = segment->number;
            *offset = start - segment->start;
        }
    }
    pthread_rwlock_unlock(&segments->lock);
    return number;
}

static weft_status reserve_entry(struct wi_shm_segments *segments, const struct weft_host *host)
{
    size_t capacity = segments->capacity ? 2 * segments->capacity : 16;
    struct wi_shm_segment *grown;

    if (segments->count < segments->capacity)
        return WEFT_SUCCESS;
    grown = realloc(segments->all, capacity * sizeof(*grown));
    if (!grown)
        return wi_shm_explain_errno(host, ENOMEM, "keep a list of shared memory");
    segments->all = grown;
    segments->capacity = capacity;
    return WEFT_SUCCESS;
}

/* Room for the entry was reserved, the lock is held. */
static void insert_entry(struct wi_shm_segments *segments, const struct wi_shm_segment *segment)
{
    size_t i = lower_bound(segments, segment->start);

    memmove(&segments->all[i + 1], &segments->all[i], (segments->count - i) * sizeof(*segments->all));
    segments->all[i] = *segment;
    __atomic_store_n(&segments->count, segments->count + 1, __ATOMIC_RELAXED);
}

static void remove_entry(struct wi_shm_segments *segments, size_t i)
{
    memmove(&segments->all[i], &segments->all[i + 1], (segments->count - i - 1) * sizeof(*segments->all));
    __atomic_store_n(&segments->count, segments->count - 1, __ATOMIC_RELAXED);
}

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Map at an address where huge pages are possible. */
static void *map_aligned(int fd, size_t bytes)
{
    size_t slack = bytes >= HUGE_BYTES ? HUGE_BYTES : 0;
    unsigned char *area = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned char *start;

    if (area == MAP_FAILED)
        return MAP_FAILED;
    start = slack ? (unsigned char *)round_up((uintptr_t)area, HUGE_BYTES) : area;
    if (start > area)
        munmap(area, (size_t)(start - area));
    if (area + slack > start)
        munmap(start + bytes, (size_t)(area + slack - start));
    if (mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(start, bytes);
        errno = error;
        return MAP_FAILED;
    }
    if (slack)
        madvise(start, bytes, MADV_HUGEPAGE);
    return start;
}

static uint64_t number_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? wi_shm_segment_number(fd, (uint64_t)st.st_ino) : 0;
}

weft_status wi_shm_segment_alloc(struct wi_shm_segments *segments, const struct weft_host *host, size_t bytes,
                                 void **ptr)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct wi_shm_segment segment = {.fd = -1};
    weft_status status;
    void *start;

    if (bytes == 0 || bytes > SIZE_MAX / 4)
        return bytes == 0 ? WEFT_EINVAL : WEFT_ENOMEM;
    bytes = round_up(bytes, page);
    status = wi_shm_memfd(host, "weft-segment", bytes, &segment.fd);
    if (status != WEFT_SUCCESS)
        return status;
    start = map_aligned(segment.fd, bytes);
    if (start == MAP_FAILED) {
        status = wi_shm_explain_errno(host, errno, "map shared memory");
        close(segment.fd);
        return status;
    }
    segment.start = (uintptr_t)start;
    segment.end = segment.start + bytes;
    segment.number = number_of(segment.fd);
    pthread_rwlock_wrlock(&segments->lock);
    status = reserve_entry(segments, host);
    if (status == WEFT_SUCCESS)
        insert_entry(segments, &segment);
    pthread_rwlock_unlock(&segments->lock);
    if (status != WEFT_SUCCESS) {
        munmap(start, bytes);
        close(segment.fd);
        return status;
    }
    *ptr = start;
    return WEFT_SUCCESS;
}

/* The entry that begins at ptr; the lock is held. */
static weft_status find_entry(const struct wi_shm_segments *segments, const struct weft_host *host, const void *ptr,
                              int adopted, size_t *at)
{
    size_t i = lower_bound(segments, (uintptr_t)ptr);

    *at = i;
    if (ptr && i < segments->count && segments->all[i].start == (uintptr_t)ptr && segments->all[i].adopted == adopted)
        return WEFT_SUCCESS;
    host->explain(host->impl, WEFT_EINVAL, "%p is no %s memory, or was given back before", ptr,
                  adopted ? "registered" : "allocated");
    return WEFT_EINVAL;
}

weft_status wi_shm_segment_free(struct wi_shm_segments *segments, const struct weft_host *host, void *ptr)
{
    struct wi_shm_segment segment = {.fd = -1};
    weft_status status;
    size_t i;

    pthread_rwlock_wrlock(&segments->lock);
    status = find_entry(segments, host, ptr, 0, &i);
    if (status == WEFT_SUCCESS) {
        segment = segments->all[i];
        remove_entry(segments, i);
    }
    pthread_rwlock_unlock(&segments->lock);
    if (status != WEFT_SUCCESS)
        return status;
    munmap(ptr, segment.end - segment.start);
    close(segment.fd);
    return WEFT_SUCCESS;
}

void wi_shm_segments_fini(struct wi_shm_segments *segments)
{
    for (size_t i = 0; i < segments->count; i++) {
        struct wi_shm_segment *segment = &segments->all[i];
        if (!segment->adopted)
            munmap((void *)segment->start, segment->end - segment->start);
        else
            wi_shm_make_private(segment); /* the memory is the user's: only its sharing ends */
        close(segment->fd);
    }
    free(segments->all);
    pthread_rwlock_destroy(&segments->lock);
}

weft_status wi_shm_segment_adopt(struct wi_shm_segments *segments, const struct weft_host *host, void *ptr,
                                 size_t bytes, void **adopted, size_t *adopted_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct wi_shm_segment segment = {.fd = -1, .adopted = 1};
    weft_status status = WEFT_ENOTSUP;
    size_t i;

    if (!ptr || bytes > UINTPTR_MAX - (uintptr_t)ptr)
        return WEFT_EINVAL;
    segment.start = round_up((uintptr_t)ptr, page);
    segment.end = ((uintptr_t)ptr + bytes) / page * page;
    if (segment.end <= segment.start) {
        host->explain(host->impl, WEFT_ENOTSUP, "the memory holds no whole page of %zu bytes", page);
        return WEFT_ENOTSUP;
    }
    pthread_rwlock_wrlock(&segments->lock);
    i = lower_bound(segments, segment.start);
    if (i < segments->count && segments->all[i].start < segment.end)
        host->explain(host->impl, WEFT_ENOTSUP, "part of the memory is shareable already");
    else
        status = reserve_entry(segments, host);
    if (status == WEFT_SUCCESS)
        status = wi_shm_make_shared(host, &segment);
    if (status == WEFT_SUCCESS) {
        segment.number = number_of(segment.fd);
        insert_entry(segments, &segment);
        *adopted = (void *)segment.start;
        *adopted_bytes = segment.end - segment.start;
    }
    pthread_rwlock_unlock(&segments->lock);
    return status;
}

/* Without memory for a private copy it stays registered, contents intact, and can be released later. */
weft_status wi_shm_segment_release(struct wi_shm_segments *segments, const struct weft_host *host, void *adopted)
{
    weft_status status;
    size_t i;

    pthread_rwlock_wrlock(&segments->lock);
    status = find_entry(segments, host, adopted, 1, &i);
    if (status == WEFT_SUCCESS && !wi_shm_make_private(&segments->all[i])) {
        status = WEFT_ENOMEM;
        host->explain(host->impl, status, "no memory to make registered memory private again; it stays registered");
    }
    if (status == WEFT_SUCCESS) {
        close(segments->all[i].fd);
        remove_entry(segments, i);
    }
    pthread_rwlock_unlock(&segments->lock);
    return status;
}
