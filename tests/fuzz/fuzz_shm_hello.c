/* fuzz_shm_hello.c: what a peer may say of itself: its address, and in the exchanges by which arenas are shared. A group comes into
 * being only with the process and the memory that the peer really has; nothing hangs, leaks descriptors, or is read out of bounds.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A second process holds an arena and takes every lock, so that the truth is accepted. The input changes bytes of the truth:
 * where (16 bits), with what (8 bits); its first byte chooses the kind of address, so that the parser alone gets any bytes as well.
 */
#include "shm_world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define MEMBERS 2

struct truth {
    struct wi_shm_identity identity;
    struct wi_shm_hello hello;
};

static struct truth truth;
static int
    link_fd; /* to the second process: the descriptor of an arena to lock; what comes back says that it is done */
static void *endpoint;
static struct wi_shm_layout layout;

/* All of the file but what rank 0 has locked. */
static int lock_all(int fd)
{
    struct flock theirs = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, ours = theirs;

    if (fcntl(fd, F_GETLK, &theirs) != 0)
        return 0;
    if (theirs.l_type == F_UNLCK)
        return fcntl(fd, F_SETLK, &ours) == 0;
    ours.l_len = theirs.l_start;
    if (theirs.l_start > 0 && fcntl(fd, F_SETLK, &ours) != 0)
        return 0;
    ours.l_start = theirs.l_start + theirs.l_len;
    ours.l_len = 0;
    return fcntl(fd, F_SETLK, &ours) == 0;
}

static _Noreturn void other_process(int fd, pid_t parent)
{
    int arena, held = -1;
    char path[64];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fd, &arena, sizeof arena) == (ssize_t)sizeof arena) {
        if (held >= 0)
            close(held);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)parent, arena);
        held = open(path, O_RDWR | O_CLOEXEC);
        arena = held >= 0 && lock_all(held);
        if (write(fd, &arena, sizeof arena) < 0)
            break;
    }
    _exit(0);
}

static void start_other(void)
{
    struct stat st;
    int fds[2];
    pid_t parent = getpid(), pid;

    fz_require(wi_shm_layout_init(&layout, MEMBERS, 2, 4096, 4096) == WEFT_SUCCESS, "layout");
    fz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    fz_require(wi_shm_memfd(&fz_host, "other", layout.ctl_bytes + layout.bulk_bytes, &truth.hello.fd) == WEFT_SUCCESS,
               "memfd");
    fz_require(fstat(truth.hello.fd, &st) == 0, "fstat");
    pid = fork();
    fz_require(pid >= 0, "fork");
    if (pid == 0) {
        close(fds[0]);
        other_process(fds[1], parent);
    }
    close(fds[1]);
    close(truth.hello.fd); /* the other's has the same number */
    link_fd = fds[0];
    wi_shm_processes_init(&fz_host);
    wi_shm_identity_read(&truth.identity, "");
    truth.identity.pid = (uint32_t)pid;
    char state;
    fz_require(wi_process_stat((int32_t)pid, &state, &truth.identity.start_ticks), "the other process");
    truth.hello.device = (uint64_t)st.st_dev;
    truth.hello.inode = (uint64_t)st.st_ino;
    truth.hello.slot_bytes = layout.slot_bytes;
    truth.hello.ring_bytes = layout.ring_bytes;
    truth.hello.depth = layout.depth;
    truth.hello.nonce = 1;
}

static const struct weft_transport_ops *shm(void)
{
    return weft_plugin_shm.ops;
}

/* ---- The peer's part in the exchanges ---- */

struct talk {
    struct wi_shm_hello hello;
    int32_t verdicts[4];
    int verdict, arena; /* rank 0's */
};

static void let_lock(int fd)
{
    ssize_t got;

    fz_require(write(link_fd, &fd, sizeof fd) > 0, "the other process is gone");
    do
        got = read(link_fd, &fd, sizeof fd);
    while (got < 0 && errno == EINTR); /* libFuzzer's timer */
    fz_require(got > 0 && fd, "the other process could not lock");
}

static weft_status gather(void *arg, const void *mine, size_t bytes, void *all)
{
    struct talk *t = arg;

    memcpy(all, mine, bytes);
    if (bytes == sizeof t->hello) {
        t->arena = ((const struct wi_shm_hello *)mine)->fd;
        memcpy((unsigned char *)all + bytes, &t->hello, bytes);
    } else {
        fz_require(bytes == sizeof(int32_t) && t->verdict < 4, "an exchange of another length");
        if (t->verdict % 2 == 0 && t->arena >= 0) /* rank 0 has taken its lock */
            let_lock(t->arena);
        memcpy((unsigned char *)all + bytes, &t->verdicts[t->verdict++], bytes);
    }
    return WEFT_SUCCESS;
}

static void change(struct fz_input *in, struct truth *said, struct talk *t)
{
    while (in->at < in->end) {
        size_t place = fz_byte(in), value;
        place += (size_t)fz_byte(in) << 8;
        value = fz_byte(in);
        place %= sizeof *said + sizeof t->verdicts;
        if (place < sizeof *said)
            ((unsigned char *)said)[place] ^= (unsigned char)value;
        else
            ((unsigned char *)t->verdicts)[place - sizeof *said] ^= (unsigned char)value;
    }
    t->hello = said->hello;
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void join(const struct truth *said, struct talk *t)
{
    static const unsigned char member[MEMBERS] = {1, 1};
    unsigned char mine[WEFT_ADDRESS_MAX];
    size_t lengths[MEMBERS] = {0, sizeof said->identity};
    const void *addresses[MEMBERS] = {mine, &said->identity};
    struct weft_group_config config = {.bytes = sizeof config,
                                       .comm_id = {3, 4},
                                       .nranks = MEMBERS,
                                       .addresses = addresses,
                                       .address_bytes = lengths,
                                       .member = member,
                                       .all_gather = gather,
                                       .all_gather_arg = t};
    int files = open_files();
    void *group = NULL;
    weft_status st;

    shm()->address(endpoint, mine, sizeof mine, &lengths[0]);
    st = shm()->group_create(endpoint, &config, &group);
    fz_require((st == WEFT_SUCCESS) == (group != NULL) && st <= 0, "neither made nor refused");
    if (group) {
        struct wi_shm_group *g = group;
        struct weft_peer_failure failure;
        fz_require(g->peers[1].identity.pid == truth.identity.pid && !g->peers[1].here, "another process was accepted");
        fz_require(t->hello.inode == truth.hello.inode && t->hello.fd == truth.hello.fd, "another arena was accepted");
        shm()->progress(group, &failure);
        shm()->group_destroy(group, 0);
    }
    fz_require(open_files() == files, "descriptors were left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fz_input in = {data, data + bytes};
    struct truth said;
    struct talk t = {.arena = -1};
    uint8_t how = fz_byte(&in);

    if (!endpoint) {
        start_other();
        fz_require(shm()->open(&fz_host, &fz_settings, &endpoint) == WEFT_SUCCESS, "open");
    }
    shm()->reachable(endpoint, in.at, (size_t)(in.end - in.at));
    said = truth;
    if (how == 255) /* an address of any bytes, the rest as it is */
        fz_bytes(&in, &said.identity, sizeof said.identity);
    change(&in, &said, &t);
    shm()->reachable(endpoint, &said.identity, sizeof said.identity);
    join(&said, &t);
    return 0;
}
