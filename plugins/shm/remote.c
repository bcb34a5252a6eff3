/* remote.c: shareable memory of this process, and reaching that of a peer.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* A peer's segment as this process sees it. */
struct wi_shm_mapping {
    struct wi_shm_mapping *next;
    uint64_t number;
    unsigned char *base;
    size_t bytes;
};

weft_status wi_shm_mem_alloc(void *arg, size_t bytes, void **ptr)
{
    struct wi_shm_endpoint *endpoint = arg;
    return wi_shm_segment_alloc(&endpoint->segments, endpoint->host, bytes, ptr);
}

/* Tell the peers of every group that some segment is gone. */
static void bump_generation(struct wi_shm_endpoint *endpoint)
{
    pthread_mutex_lock(&endpoint->lock);
    for (struct wi_shm_group *group = endpoint->groups; group; group = group->next)
        __atomic_fetch_add(&group->arenas[group->self].ctl->mem_generation, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&endpoint->lock);
}

weft_status wi_shm_mem_free(void *arg, void *ptr)
{
    struct wi_shm_endpoint *endpoint = arg;
    weft_status status = wi_shm_segment_free(&endpoint->segments, endpoint->host, ptr);

    if (status == WEFT_SUCCESS)
        bump_generation(endpoint);
    return status;
}

weft_status wi_shm_mem_adopt(void *arg, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes)
{
    struct wi_shm_endpoint *endpoint = arg;
    return wi_shm_segment_adopt(&endpoint->segments, endpoint->host, ptr, bytes, adopted, adopted_bytes);
}

weft_status wi_shm_mem_release(void *arg, void *adopted)
{
    struct wi_shm_endpoint *endpoint = arg;
    weft_status status = wi_shm_segment_release(&endpoint->segments, endpoint->host, adopted);

    if (status == WEFT_SUCCESS)
        bump_generation(endpoint);
    return status;
}

void wi_shm_mem_describe(void *arg, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    struct wi_shm_endpoint *endpoint = arg;

    desc->address = (uint64_t)(uintptr_t)ptr;
    desc->bytes = bytes;
    desc->offset = 0;
    if (endpoint->one_process) { /* all memory is everybody's */
        desc->segment = 1;
        desc->offset = desc->address;
        return;
    }
    desc->segment = wi_shm_segment_find(&endpoint->segments, ptr, bytes, &desc->offset);
}

static int open_segment(const struct wi_shm_peer *peer, uint64_t number, size_t *bytes)
{
    int fd = wi_shm_open_descriptor(peer->identity.pid, wi_shm_segment_fd(number)), seals;
    struct stat st;

    if (fd < 0)
        return -1;
    seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || !wi_shm_segment_is(number, (uint64_t)st.st_ino) || seals < 0 ||
        !(seals & F_SEAL_SHRINK) || !wi_shm_watch_alive(peer->watch)) {
        close(fd); /* another file, one whose pages could be pulled away, or that of whoever has the number now */
        errno = ESTALE;
        return -1;
    }
    *bytes = (size_t)st.st_size;
    return fd;
}

static void drop_mapping(struct wi_shm_mapping **link)
{
    struct wi_shm_mapping *mapping = *link;

    *link = mapping->next;
    munmap(mapping->base, mapping->bytes);
    free(mapping);
}

void wi_shm_mappings_free(struct wi_shm_peer *peer)
{
    while (peer->mappings)
        drop_mapping(&peer->mappings);
}

/* Which mappings outlived their segment? Only asked after the peer has freed some. */
static void drop_stale(struct wi_shm_peer *peer)
{
    struct wi_shm_mapping **link = &peer->mappings;

    while (*link) {
        char path[64];
        struct stat st;

        snprintf(path, sizeof(path), "/proc/%u/fd/%d", peer->identity.pid, wi_shm_segment_fd((*link)->number));
        if (stat(path, &st) == 0 && wi_shm_segment_is((*link)->number, (uint64_t)st.st_ino))
            link = &(*link)->next;
        else
            drop_mapping(link);
    }
}

static weft_status map_segment(struct wi_shm_group *group, struct wi_shm_peer *peer, uint64_t number,
                               struct wi_shm_mapping **made)
{
    const struct weft_host *host = group->endpoint->host;
    struct wi_shm_mapping *mapping;
    size_t bytes;
    void *base;
    int fd = open_segment(peer, number, &bytes), error;

    if (fd < 0) {
        if (errno != ESTALE && errno != ENOENT)
            return wi_shm_explain_errno(host, errno, "open a segment of another rank");
        host->explain(host->impl, WEFT_ENOTFOUND, "rank %d has freed the memory that it offered", peer->rank);
        return WEFT_ENOTFOUND;
    }
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = errno;
    close(fd);
    if (base == MAP_FAILED)
        return wi_shm_explain_errno(host, error, "map a segment of another rank");
    mapping = malloc(sizeof(*mapping));
    if (!mapping) {
        munmap(base, bytes);
        return WEFT_ENOMEM;
    }
    *mapping = (struct wi_shm_mapping){.next = peer->mappings, .number = number, .base = base, .bytes = bytes};
    peer->mappings = mapping;
    *made = mapping;
    return WEFT_SUCCESS;
}

static weft_status map_of(struct wi_shm_group *group, struct wi_shm_peer *peer, uint64_t number,
                          struct wi_shm_mapping **found)
{
    const struct wi_shm_ctl *ctl = group->arenas[peer - group->peers].ctl;
    uint64_t generation = __atomic_load_n(&ctl->mem_generation, __ATOMIC_ACQUIRE);
    struct wi_shm_mapping **link;

    if (generation != peer->mem_generation) {
        peer->mem_generation = generation;
        drop_stale(peer);
    }
    for (link = &peer->mappings; *link; link = &(*link)->next) {
        struct wi_shm_mapping *mapping = *link;
        if (mapping->number != number)
            continue;
        *link = mapping->next; /* to the front: the next look-up is most likely the same */
        mapping->next = peer->mappings;
        peer->mappings = mapping;
        *found = mapping;
        return WEFT_SUCCESS;
    }
    return map_segment(group, peer, number, found);
}

weft_status wi_shm_mem_map(void *arg, int rank, const struct weft_mem_desc *desc, void **ptr)
{
    struct wi_shm_group *group = arg;
    struct wi_shm_peer *peer = wi_shm_peer_at(group, rank);
    struct wi_shm_mapping *mapping = NULL;
    weft_status status;

    if (!peer || desc->segment == 0)
        return WEFT_EINVAL;
    if (group->endpoint->one_process || peer->here) {
        *ptr = (void *)(uintptr_t)desc->address;
        return WEFT_SUCCESS;
    }
    status = map_of(group, peer, desc->segment, &mapping);
    if (status != WEFT_SUCCESS)
        return status;
    if (desc->offset > mapping->bytes || desc->bytes > mapping->bytes - desc->offset) {
        group->endpoint->host->explain(group->endpoint->host->impl, WEFT_EPROTO,
                                       "rank %d offers memory beyond the end of its segment", rank);
        return WEFT_EPROTO;
    }
    *ptr = mapping->base + desc->offset;
    return WEFT_SUCCESS;
}

static weft_status attach_failed(const struct weft_host *host, const struct wi_shm_peer *peer, int error, int put)
{
    switch (error) {
    case ESRCH:
        host->explain(host->impl, WEFT_EPEER, "process %u of rank %d is gone", peer->identity.pid, peer->rank);
        return WEFT_EPEER;
    case EPERM:
    case ENOSYS:
        host->explain(host->impl, WEFT_ENOTSUP, "process_vm_%sv of rank %d's memory is not permitted here",
                      put ? "write" : "read", peer->rank);
        return WEFT_ENOTSUP;
    case EFAULT:
        host->explain(host->impl, WEFT_EPROTO, "rank %d named memory that it does not have%s", peer->rank,
                      put ? ", or may not write" : "");
        return WEFT_EPROTO;
    default:
        return wi_shm_explain_errno(host, error,
                                    put ? "write the memory of another rank" : "read the memory of another rank");
    }
}

static weft_status attach(struct wi_shm_group *group, int rank, uint64_t remote_address, unsigned char *local,
                          size_t bytes, int put)
{
    struct wi_shm_peer *peer = wi_shm_peer_at(group, rank);
    size_t done = 0;

    if (!peer)
        return WEFT_EINVAL;
    if (!group->endpoint->settings->cma)
        return WEFT_ENOTSUP;
    if (peer->watch && !wi_shm_watch_alive(peer->watch)) /* numbers come round in seconds, this copy begins at once */
        return attach_failed(group->endpoint->host, peer, ESRCH, put);
    do { /* of nothing, too: that asks whether it is permitted */
        struct iovec here = {local + done, bytes - done};
        struct iovec there = {(void *)(uintptr_t)(remote_address + done), bytes - done};
        pid_t pid = (pid_t)peer->identity.pid;
        ssize_t moved =
            put ? process_vm_writev(pid, &here, 1, &there, 1, 0) : process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 || (moved == 0 && bytes > 0))
            return attach_failed(group->endpoint->host, peer, moved == 0 ? EFAULT : errno, put);
        done += (size_t)moved;
    } while (done < bytes);
    return WEFT_SUCCESS;
}

weft_status wi_shm_mem_get(void *group, int rank, uint64_t remote_address, void *local, size_t bytes)
{
    return attach(group, rank, remote_address, local, bytes, 0);
}

weft_status wi_shm_mem_put(void *group, int rank, uint64_t remote_address, const void *local, size_t bytes)
{
    return attach(group, rank, remote_address, (unsigned char *)(uintptr_t)local, bytes, 1);
}
