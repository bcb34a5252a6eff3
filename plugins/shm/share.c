/* share.c: make this rank's arena and map those of the others.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Three rounds over the bootstrap: what I made; could I map all of yours; is each of you who it says it is. When some member
 * could not open the others' memfds (no /proc, other credentials), all make named objects in /dev/shm instead, and three more
 * rounds follow. Every member goes through the same rounds whatever happens to it. Nothing is written into an arena of another
 * before the third.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t arena_bytes(const struct wi_shm_group *group)
{
    return group->layout.ctl_bytes + group->layout.bulk_bytes;
}

static const struct weft_host *host_of(const struct wi_shm_share *share)
{
    return share->group->endpoint->host;
}

static weft_status gather(struct wi_shm_share *share, const void *mine, size_t bytes, void *all)
{
    return share->config->all_gather(share->config->all_gather_arg, mine, bytes, all);
}

/* The name of a member's object, which every member computes by itself. */
static void object_name(const struct wi_shm_share *share, uint32_t member, char name[WI_SHM_NAME_MAX])
{
    const struct wi_shm_peer *peer = &share->group->peers[member];

    wi_shm_object_name(&peer->identity, share->config->comm_id[0], peer->rank, name);
}

static weft_status create_named(struct wi_shm_share *share, size_t bytes)
{
    const struct weft_host *host = host_of(share);
    weft_status status = wi_shm_file_limit(host, bytes);

    if (status != WEFT_SUCCESS)
        return status;
    wi_shm_objects_sweep(&share->group->endpoint->identity);
    object_name(share, share->group->self, share->name);
    share->fd = shm_open(share->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (share->fd < 0) {
        share->name[0] = '\0';
        return wi_shm_explain_errno(host, errno, "create an arena in /dev/shm");
    }
    if (ftruncate(share->fd, (off_t)bytes) != 0)
        return wi_shm_explain_errno(host, errno, "size an arena in /dev/shm");
    return WEFT_SUCCESS;
}

static weft_status create(struct wi_shm_share *share)
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

static void fill_hello(struct wi_shm_share *share, weft_status status, int membarrier, struct wi_shm_hello *mine)
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
    mine->named = share->named != 0;
    if (status == WEFT_SUCCESS && getrandom(&mine->nonce, sizeof(mine->nonce), 0) != (ssize_t)sizeof(mine->nonce))
        mine->status = wi_shm_explain_errno(host_of(share), errno, "draw a random number");
}

/* What a member says of itself, made a status that can be passed on. */
static weft_status said(int32_t status)
{
    return status == WEFT_SUCCESS || (status < 0 && status > -1000) ? (weft_status)status : WEFT_EPROTO;
}

/* Each member has an arena of its own. One shown by two would be opened twice, and to close a file gives back the locks that this
 * process holds in it, by which the others know it (prove.c). */
static weft_status check_distinct(const struct wi_shm_share *share)
{
    const struct wi_shm_group *group = share->group;

    for (uint32_t i = 1; i < group->nmembers; i++) {
        for (uint32_t k = 0; k < i; k++) {
            const struct wi_shm_hello *a = &share->all[k], *b = &share->all[i];
            if (a->inode != b->inode || a->device != b->device)
                continue;
            host_of(share)->explain(host_of(share)->impl, WEFT_EPROTO, "ranks %d and %d show the same arena",
                                    group->peers[k].rank, group->peers[i].rank);
            return WEFT_EPROTO;
        }
    }
    return WEFT_SUCCESS;
}

/* The same verdict on all members: it depends on what was gathered only. */
weft_status wi_shm_hellos_check(const struct wi_shm_share *share)
{
    const struct wi_shm_group *group = share->group;
    const struct weft_host *host = host_of(share);

    for (uint32_t i = 0; i < group->nmembers; i++) {
        weft_status status = said(share->all[i].status);
        if (status != WEFT_SUCCESS) {
            if (i != group->self)
                host->explain(host->impl, status, "rank %d could not make its shared-memory arena (%s)",
                              group->peers[i].rank, weft_status_name(status));
            return status;
        }
    }
    for (uint32_t i = 1; i < group->nmembers; i++) {
        const struct wi_shm_hello *a = &share->all[0], *b = &share->all[i];
        if (a->named != b->named) {
            host->explain(host->impl, WEFT_ECONFIG, "ranks %d and %d differ in WEFT_SHM_ARENA", group->peers[0].rank,
                          group->peers[i].rank);
            return WEFT_ECONFIG;
        }
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

static int open_peer(const struct wi_shm_share *share, uint32_t member)
{
    const struct wi_shm_peer *peer = &share->group->peers[member];
    char name[WI_SHM_NAME_MAX];

    if (!share->named)
        return wi_shm_open_descriptor(peer->identity.pid, share->all[member].fd);
    object_name(share, member, name);
    return shm_open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
}

/* Is it what the member described, of this user, and can its pages not be pulled away? */
static int is_arena(const struct wi_shm_share *share, uint32_t member, int fd)
{
    const struct wi_shm_hello *hello = &share->all[member];
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = share->named ? sealed : fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_dev != hello->device ||
        (uint64_t)st.st_ino != hello->inode || (size_t)st.st_size != arena_bytes(share->group))
        return 0;
    return seals >= 0 && (seals & sealed) == sealed;
}

/* A process may have only so many mappings. */
static weft_status map_failed(const struct weft_host *host, int error, const char *what)
{
    FILE *in = error == ENOMEM ? fopen("/proc/sys/vm/max_map_count", "re") : NULL;
    long most = 0;

    if (in && fscanf(in, "%ld", &most) != 1)
        most = 0;
    if (in)
        fclose(in);
    if (most <= 0)
        return wi_shm_explain_errno(host, error, what);
    host->explain(host->impl, WEFT_ENOMEM,
                  "could not %s: a communicator takes 2 mappings for each rank of the node, and a process may have %ld "
                  "(vm.max_map_count); raise that, or ulimit -v, or free memory",
                  what, most);
    return WEFT_ENOMEM;
}

static weft_status map_arena(struct wi_shm_group *group, uint32_t member, int fd)
{
    const struct wi_shm_layout *layout = &group->layout;
    unsigned char *ctl = group->ctl_map + member * layout->ctl_bytes;
    void *bulk;

    bulk = mmap(NULL, layout->bulk_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                (off_t)layout->ctl_bytes);
    if (bulk == MAP_FAILED)
        return map_failed(group->endpoint->host, errno, "map a rank's arena");
    group->arenas[member].bulk = bulk;
    madvise(bulk, layout->bulk_bytes, MADV_DONTFORK); /* a forked child must not speak for this rank */
    if (mmap(ctl, layout->ctl_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return map_failed(group->endpoint->host, errno, "map a rank's control lines");
    madvise(ctl, layout->ctl_bytes, MADV_DONTFORK);
    group->arenas[member].ctl = (struct wi_shm_ctl *)ctl;
    return WEFT_SUCCESS;
}

static weft_status map_peer(struct wi_shm_share *share, uint32_t member)
{
    struct wi_shm_group *group = share->group;
    int fd = member == group->self ? share->fd : open_peer(share, member);
    weft_status status = WEFT_EPROTO;

    if (fd < 0)
        return wi_shm_explain_errno(group->endpoint->host, errno, "open the arena of another rank");
    if (is_arena(share, member, fd))
        status = map_arena(group, member, fd);
    else
        group->endpoint->host->explain(group->endpoint->host->impl, WEFT_EPROTO,
                                       "what rank %d shows as its arena is another file", group->peers[member].rank);
    if (status == WEFT_SUCCESS)
        status = wi_shm_guard(share, member, &fd);
    if (fd >= 0 && member != group->self)
        close(fd);
    return status;
}

static weft_status map_all(struct wi_shm_share *share)
{
    struct wi_shm_group *group = share->group;
    size_t bytes = group->layout.ctl_bytes * group->nmembers;
    void *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return map_failed(group->endpoint->host, errno, "reserve address space for arenas");
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

/* The first failure of all members; `what` could it not do? Who failed alike keeps its own explanation. */
static weft_status agree(struct wi_shm_share *share, weft_status mine, const char *what)
{
    const struct wi_shm_group *group = share->group;
    int32_t verdict = mine;
    weft_status status = gather(share, &verdict, sizeof(verdict), share->verdicts);

    for (uint32_t i = 0; status == WEFT_SUCCESS && i < group->nmembers; i++) {
        status = said(share->verdicts[i]);
        if (status != WEFT_SUCCESS && status != mine)
            host_of(share)->explain(host_of(share)->impl, status, "rank %d could not %s (%s)", group->peers[i].rank,
                                    what, weft_status_name(status));
    }
    return status;
}

/* One method of sharing, three rounds. WEFT_ESYS: another method may be tried, on all members alike. */
static weft_status share_round(struct wi_shm_share *share, int *membarrier)
{
    struct wi_shm_group *group = share->group;
    struct wi_shm_hello mine;
    weft_status status = create(share);

    fill_hello(share, status, group->endpoint->membarrier, &mine);
    status = gather(share, &mine, sizeof(mine), share->all);
    if (status != WEFT_SUCCESS)
        return status;
    status = wi_shm_hellos_check(share);
    if (status == WEFT_SUCCESS)
        status = wi_shm_here_check(share);
    if (status == WEFT_SUCCESS)
        status = check_distinct(share);
    if (status == WEFT_SUCCESS)
        status = map_all(share);
    status = agree(share, status, "map the arenas of this node");
    if (status == WEFT_SUCCESS)
        status = wi_shm_prove(share);
    status = agree(share, status, "make sure of the other processes");
    *membarrier = group->endpoint->membarrier;
    for (uint32_t i = 0; i < group->nmembers; i++)
        if (!share->all[i].membarrier)
            *membarrier = 0;
    return status;
}

/* What was needed to share only. */
static void end_round(struct wi_shm_share *share)
{
    if (share->name[0])
        shm_unlink(share->name);
    share->name[0] = '\0';
    wi_shm_guards_drop(share);
    if (share->fd >= 0)
        close(share->fd);
    share->fd = -1;
}

static weft_status share_somehow(struct wi_shm_share *share, int *membarrier)
{
    const char *how = share->group->endpoint->settings->arena;
    weft_status status;

    share->named = how && strcmp(how, "named") == 0;
    status = share_round(share, membarrier);
    end_round(share);
    if (status != WEFT_ESYS || share->named) /* the only kind of failure that another method can cure */
        return status;
    wi_shm_unshare(share->group);
    share->named = 1;
    status = share_round(share, membarrier);
    end_round(share);
    return status;
}

weft_status wi_shm_share(struct wi_shm_group *group, const struct weft_group_config *config, int *membarrier)
{
    struct wi_shm_share share = {.group = group, .config = config, .fd = -1};
    weft_status status = wi_shm_guards_init(&share);

    share.all = calloc(group->nmembers, sizeof(*share.all));
    share.verdicts = calloc(group->nmembers, sizeof(*share.verdicts));
    if (status == WEFT_SUCCESS && share.all && share.verdicts) {
        wi_shm_here_add(group);
        status = share_somehow(&share, membarrier);
        wi_shm_here_remove(group);
    } else {
        status = WEFT_ENOMEM; /* the others' deadline ends their wait; as for any process without memory */
    }
    group->may_fault = share.named;
    if (status != WEFT_SUCCESS)
        wi_shm_unshare(group);
    free(share.guards);
    free(share.all);
    free(share.verdicts);
    return status;
}
