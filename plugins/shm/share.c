/* share.c: make this rank's arena and map those of the others.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two rounds over the bootstrap: what I made; could I map all of yours. When some member could not open the others'
 * memfds (no /proc, other credentials), all make named objects in /dev/shm instead, and two more rounds follow.
 * Every member goes through the same rounds whatever happens to it.
 */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct hello {
    int32_t status;
    int32_t fd;
    uint64_t device, inode;
    uint64_t slot_bytes, ring_bytes;
    uint32_t depth, membarrier;
    char name[64]; /* of the /dev/shm object; empty: memfd */
};

struct share {
    struct wi_shm_group *group;
    const struct weft_group_config *config;
    struct hello *all; /* [nmembers] */
    int32_t *verdicts; /* [nmembers] */
    int fd;            /* of the own arena; open until the others have mapped it */
    int named;
    char name[64];
};

static size_t arena_bytes(const struct wi_shm_group *group)
{
    return group->layout.ctl_bytes + group->layout.bulk_bytes;
}

static const struct weft_host *host_of(const struct share *share)
{
    return share->group->endpoint->host;
}

static weft_status gather(struct share *share, const void *mine, size_t bytes, void *all)
{
    return share->config->all_gather(share->config->all_gather_arg, mine, bytes, all);
}

static weft_status create_named(struct share *share, size_t bytes)
{
    const struct weft_host *host = host_of(share);

    snprintf(share->name, sizeof(share->name), "/weft-%u-%016llx-%d", share->group->endpoint->identity.pid,
             (unsigned long long)share->config->comm_id[0], share->config->rank);
    share->fd = shm_open(share->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (share->fd < 0) {
        share->name[0] = '\0';
        return wi_shm_explain_errno(host, errno, "create an arena in /dev/shm");
    }
    if (ftruncate(share->fd, (off_t)bytes) != 0)
        return wi_shm_explain_errno(host, errno, "size an arena in /dev/shm");
    return WEFT_SUCCESS;
}

static weft_status create(struct share *share)
{
    struct wi_shm_group *group = share->group;
    /* Pages that are there cannot raise SIGBUS later. Rings ask for theirs on first use. */
    size_t backed = group->layout.ctl_bytes + (share->named ? group->layout.rings_at : 0);
    weft_status status = share->named ? create_named(share, arena_bytes(group))
                                      : wi_shm_memfd(host_of(share), "weft-arena", arena_bytes(group), &share->fd);

    if (status != WEFT_SUCCESS)
        return status;
    if (fallocate(share->fd, 0, 0, (off_t)backed) != 0)
        return wi_shm_explain_errno(host_of(share), errno, "get memory for an arena");
    return WEFT_SUCCESS;
}

static void fill_hello(struct share *share, weft_status status, int membarrier, struct hello *mine)
{
    struct stat st;

    memset(mine, 0, sizeof(*mine));
    mine->status = status;
    mine->fd = share->fd;
    if (status == WEFT_SUCCESS && fstat(share->fd, &st) == 0) {
        mine->device = (uint64_t)st.st_dev;
        mine->inode = (uint64_t)st.st_ino;
    }
    mine->depth = share->group->layout.depth;
    mine->slot_bytes = share->group->layout.slot_bytes;
    mine->ring_bytes = share->group->layout.ring_bytes;
    mine->membarrier = membarrier != 0;
    memcpy(mine->name, share->name, sizeof(mine->name));
}

/* The same verdict on all members: it depends on what was gathered only. */
static weft_status check_hellos(const struct share *share)
{
    const struct wi_shm_group *group = share->group;
    const struct weft_host *host = host_of(share);

    for (uint32_t i = 0; i < group->nmembers; i++) {
        const struct hello *h = &share->all[i];
        if (h->status != WEFT_SUCCESS) {
            if (i != group->self)
                host->explain(host->impl, h->status, "rank %d could not make its shared-memory arena (%s)",
                              group->peers[i].rank, weft_status_name(h->status));
            return h->status;
        }
    }
    for (uint32_t i = 1; i < group->nmembers; i++) {
        const struct hello *a = &share->all[0], *b = &share->all[i];
        if (a->depth == b->depth && a->slot_bytes == b->slot_bytes && a->ring_bytes == b->ring_bytes)
            continue;
        host->explain(
            host->impl, WEFT_ECONFIG,
            "ranks %d and %d differ in WEFT_SHM_DEPTH, _SLOT_BYTES or _RING_BYTES (%u, %llu, %llu; %u, %llu, %llu)",
            group->peers[0].rank, group->peers[i].rank, a->depth, (unsigned long long)a->slot_bytes,
            (unsigned long long)a->ring_bytes, b->depth, (unsigned long long)b->slot_bytes,
            (unsigned long long)b->ring_bytes);
        return WEFT_ECONFIG;
    }
    return WEFT_SUCCESS;
}

static int open_peer(const struct wi_shm_peer *peer, const struct hello *hello)
{
    char path[64];

    if (hello->name[0])
        return shm_open(hello->name, O_RDWR | O_CLOEXEC, 0);
    snprintf(path, sizeof(path), "/proc/%u/fd/%d", peer->identity.pid, hello->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static weft_status map_arena(struct wi_shm_group *group, uint32_t member, int fd)
{
    const struct wi_shm_layout *layout = &group->layout;
    unsigned char *ctl = group->ctl_map + member * layout->ctl_bytes;
    void *bulk;

    bulk = mmap(NULL, layout->bulk_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                (off_t)layout->ctl_bytes);
    if (bulk == MAP_FAILED)
        return wi_shm_explain_errno(group->endpoint->host, errno, "map a rank's arena");
    group->arenas[member].bulk = bulk;
    madvise(bulk, layout->bulk_bytes, MADV_DONTFORK); /* a forked child must not speak for this rank */
    if (mmap(ctl, layout->ctl_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return wi_shm_explain_errno(group->endpoint->host, errno, "map a rank's control lines");
    madvise(ctl, layout->ctl_bytes, MADV_DONTFORK);
    group->arenas[member].ctl = (struct wi_shm_ctl *)ctl;
    return WEFT_SUCCESS;
}

static weft_status map_peer(struct share *share, uint32_t member)
{
    struct wi_shm_group *group = share->group;
    const struct hello *hello = &share->all[member];
    int fd = member == group->self ? share->fd : open_peer(&group->peers[member], hello);
    weft_status status;
    struct stat st;

    if (fd < 0)
        return wi_shm_explain_errno(group->endpoint->host, errno, "open the arena of another rank");
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_dev != hello->device || (uint64_t)st.st_ino != hello->inode ||
        (size_t)st.st_size != arena_bytes(group)) {
        group->endpoint->host->explain(group->endpoint->host->impl, WEFT_EPROTO,
                                       "what rank %d shows as its arena is another file", group->peers[member].rank);
        status = WEFT_EPROTO;
    } else {
        status = map_arena(group, member, fd);
    }
    if (member != group->self)
        close(fd);
    return status;
}

static weft_status map_all(struct share *share)
{
    struct wi_shm_group *group = share->group;
    size_t bytes = group->layout.ctl_bytes * group->nmembers;
    void *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return wi_shm_explain_errno(group->endpoint->host, errno, "reserve address space for arenas");
    group->ctl_map = map;
    for (uint32_t i = 0; i < group->nmembers; i++) {
        weft_status status = map_peer(share, i);
        if (status != WEFT_SUCCESS)
            return status;
    }
    return WEFT_SUCCESS;
}

void wi_shm_unshare(struct wi_shm_group *group)
{
    for (uint32_t i = 0; i < group->nmembers; i++) {
        if (group->arenas[i].bulk)
            munmap(group->arenas[i].bulk, group->layout.bulk_bytes);
        group->arenas[i] = (struct wi_shm_arena){NULL, NULL};
    }
    if (group->ctl_map)
        munmap(group->ctl_map, group->layout.ctl_bytes * group->nmembers);
    group->ctl_map = NULL;
}

/* One way of sharing, two rounds. WEFT_ENOTSUP in *worst: another way may be tried, on all members alike. */
static weft_status share_round(struct share *share, int *membarrier)
{
    struct wi_shm_group *group = share->group;
    struct hello mine;
    int32_t mapped;
    weft_status status = create(share), agreed;

    fill_hello(share, status, group->endpoint->membarrier, &mine);
    agreed = gather(share, &mine, sizeof(mine), share->all);
    if (agreed != WEFT_SUCCESS)
        return agreed;
    agreed = check_hellos(share);
    mapped = agreed == WEFT_SUCCESS ? map_all(share) : agreed;
    status = gather(share, &mapped, sizeof(mapped), share->verdicts);
    if (status != WEFT_SUCCESS || agreed != WEFT_SUCCESS)
        return status != WEFT_SUCCESS ? status : agreed;
    *membarrier = group->endpoint->membarrier;
    for (uint32_t i = 0; i < group->nmembers; i++) {
        if (!share->all[i].membarrier)
            *membarrier = 0;
        if (share->verdicts[i] == WEFT_SUCCESS || status != WEFT_SUCCESS)
            continue;
        status = share->verdicts[i];
        if (i != group->self)
            host_of(share)->explain(host_of(share)->impl, status, "rank %d could not map the arenas of this node (%s)",
                                    group->peers[i].rank, weft_status_name(status));
    }
    return status;
}

static void drop_own(struct share *share)
{
    if (share->name[0])
        shm_unlink(share->name);
    share->name[0] = '\0';
    if (share->fd >= 0)
        close(share->fd);
    share->fd = -1;
}

weft_status wi_shm_share(struct wi_shm_group *group, const struct weft_group_config *config, int *membarrier)
{
    const char *how = group->endpoint->settings->arena;
    struct share share = {.group = group, .config = config, .fd = -1};
    weft_status status = WEFT_ENOMEM;

    share.all = calloc(group->nmembers, sizeof(*share.all));
    share.verdicts = calloc(group->nmembers, sizeof(*share.verdicts));
    if (!share.all || !share.verdicts)
        goto free_arrays; /* the others' deadline ends their wait; as for any process without memory */
    share.named = how && strcmp(how, "named") == 0;
    status = share_round(&share, membarrier);
    drop_own(&share);
    if (status == WEFT_ESYS && !share.named) { /* the only kind of failure that another way can cure */
        wi_shm_unshare(group);
        share.named = 1;
        status = share_round(&share, membarrier);
        drop_own(&share);
    }
    group->may_fault = share.named;
    if (status != WEFT_SUCCESS)
        wi_shm_unshare(group);
free_arrays:
    free(share.all);
    free(share.verdicts);
    return status;
}
