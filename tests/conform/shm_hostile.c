/* shm_hostile.c: what a hostile rank of the same communicator can do over shared memory: be refused by name.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The last rank lies: in its address (which all ranks have alike, so every rank changes it), in what it says while a group is
 * made (tamper), or by what it stores into its own arena.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../plugins/shm/chan.h"
#include "../../plugins/shm/share.h"
#include "../../plugins/shm/shm.h"
#include "../../plugins/shm/watch.h"
#include "../unit/unit.h"
#include "base/process.h"
#include "transport.h"

static const struct weft_host process_host = {
    .bytes = sizeof process_host, .process_self = wi_process_self, .process_state = wi_process_state};

#define DEADLINE_MS 30000u

static const char *const named[] = {"SHM_ARENA=named", NULL};
static const struct tc_fixture processes = {.name = "shm", .plugin = &weft_plugin_shm};
static const struct tc_fixture objects = {
    .name = "shm, arenas in /dev/shm", .plugin = &weft_plugin_shm, .settings = named};

static int hostile(const struct tc_rank *r)
{
    return r->rank == r->nranks - 1;
}

/* Group creation fails here, and says so with these words. */
static void refused(struct tc_rank *r, const char *words)
{
    weft_status status = tc_group_try(r);

    WT_CHECK_STATUS(status, WEFT_EPROTO);
    if (!hostile(r) && !strstr(r->explained, words))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", words, r->explained);
    wt_sync();
}

/* ---- Identity ---- */

static struct wi_shm_identity *said_by(struct tc_rank *r, int rank)
{
    return (struct wi_shm_identity *)(uintptr_t)r->addresses[rank];
}

/* The hostile rank shows what another shows. */
static struct wi_shm_hello *shown(struct tc_rank *r)
{
    return (struct wi_shm_hello *)tc_word(r, 5);
}

static void show(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    if (round != 0)
        return;
    memcpy(shown(r), mine, bytes);
    __atomic_store_n(tc_word(r, 7), 1, __ATOMIC_RELEASE);
}

static void mimic(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000), nonce = ((struct wi_shm_hello *)mine)->nonce;

    if (round != 0)
        return;
    while (!__atomic_load_n(tc_word(r, 7), __ATOMIC_ACQUIRE)) {
        WT_REQUIRE(wt_now_ms() < deadline);
        sched_yield();
    }
    memcpy(mine, shown(r), bytes);
    ((struct wi_shm_hello *)mine)->nonce = nonce;
}

/* Rank 2 says that it is the process of rank 1: rank 0 must not write there what is meant for rank 2. */
static void as_another_rank(struct tc_rank *r)
{
    r->tamper = r->rank == 1 ? show : hostile(r) ? mimic : NULL;
    if (!hostile(r))
        *said_by(r, 2) = *said_by(r, 1);
    refused(r, r->rank == 0 ? "ranks 1 and 2 show the same arena" : "rank 2 says that it runs in this process");
}

/* Of the object that a process makes for rank 1. */
static void path_of(struct tc_rank *r, pid_t pid, char path[128])
{
    struct wi_shm_identity owner = *said_by(r, 1);
    char name[WI_SHM_NAME_MAX], state;

    owner.pid = (uint32_t)pid;
    WT_REQUIRE(wi_process_stat((int32_t)owner.pid, &state, &owner.start_ticks));
    wi_shm_object_name(&owner, r->config.comm_id[0], 1, name);
    snprintf(path, 128, "/dev/shm%s", name);
}

/* Rank 1 says that it is a process outside the communicator, its parent, and has put an object where that one's would be. */
static void link_object(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    char from[128], to[128];

    (void)mine, (void)bytes;
    if (round != 0)
        return;
    path_of(r, getpid(), from);
    path_of(r, getppid(), to);
    unlink(to);
    WT_REQUIRE(link(from, to) == 0);
}

static void as_a_stranger(struct tc_rank *r)
{
    char words[128], state;

    r->tamper = hostile(r) ? link_object : NULL;
    snprintf(words, sizeof(words), "rank 1 says that it is process %d, but is process %u", (int)getppid(),
             said_by(r, 1)->pid);
    if (!hostile(r)) {
        said_by(r, 1)->pid = (uint32_t)getppid();
        WT_REQUIRE(wi_process_stat((int32_t)said_by(r, 1)->pid, &state, &said_by(r, 1)->start_ticks));
    }
    refused(r, words);
    if (hostile(r)) {
        path_of(r, getppid(), words);
        unlink(words);
    }
}

/* Rank 1 says that it is rank 0's own process: rank 0 must not take addresses in its own memory from it. */
static void as_oneself(struct tc_rank *r)
{
    r->tamper = r->rank == 0 ? show : mimic;
    if (!hostile(r))
        *said_by(r, 1) = *said_by(r, 0);
    refused(r, "rank 1 says that it runs in this process");
}

/* Rank 1 is on another machine: it names a process and a file here, but can lock nothing. */
static void from_afar(struct tc_rank *r)
{
    struct wi_shm_hello mine = {0}, all[2];
    int32_t fine = WEFT_SUCCESS, verdicts[2];
    struct wi_shm_layout layout;
    struct stat st;

    if (!hostile(r)) {
        refused(r, "rank 1 says that it is process");
        WT_CHECK(strstr(r->explained, "of this machine, and is not") != NULL);
        return;
    }
    WT_REQUIRE_OK(wi_shm_layout_init(&layout, 2, 8, 128 << 10, 64 << 10));
    WT_REQUIRE_OK(wi_shm_memfd(&r->host, "afar", layout.ctl_bytes + layout.bulk_bytes, &mine.fd));
    WT_REQUIRE(fstat(mine.fd, &st) == 0);
    mine = (struct wi_shm_hello){.fd = mine.fd,
                                 .device = (uint64_t)st.st_dev,
                                 .inode = (uint64_t)st.st_ino,
                                 .slot_bytes = layout.slot_bytes,
                                 .ring_bytes = layout.ring_bytes,
                                 .depth = layout.depth};
    tc_all_gather(r, &mine, sizeof(mine), all);
    tc_all_gather(r, &fine, sizeof(fine), verdicts);
    WT_CHECK_INT(verdicts[0], WEFT_SUCCESS);
    tc_all_gather(r, &fine, sizeof(fine), verdicts);
    WT_CHECK_INT(verdicts[0], WEFT_EPROTO);
    wt_sync();
}

/* ---- What does it show ---- */

/* Memory that its owner could take away while another rank reads it. */
static void unseal(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    struct wi_shm_hello *hello = mine;
    struct stat st;

    (void)r, (void)bytes;
    if (round != 0)
        return;
    WT_REQUIRE(fstat(hello->fd, &st) == 0);
    hello->fd = memfd_create("unsealed", MFD_CLOEXEC);
    WT_REQUIRE(hello->fd >= 0 && ftruncate(hello->fd, st.st_size) == 0 && fstat(hello->fd, &st) == 0);
    hello->device = (uint64_t)st.st_dev;
    hello->inode = (uint64_t)st.st_ino;
}

static void unsealed(struct tc_rank *r)
{
    r->tamper = hostile(r) ? unseal : NULL;
    refused(r, "what rank 1 shows as its arena is another file");
}

/* The arena of rank 0, whose locks say who the others are: who opens it once more and closes that gives its own lock back, and
 * would be taken for a rank that is not what it says. */
static void show_arena_of_0(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);
    struct wi_shm_hello *hello = mine;
    char path[64];

    if (round != 0 && bytes == sizeof(int32_t))
        *(int32_t *)mine = WEFT_SUCCESS; /* whatever this rank really thinks of it */
    if (round != 0)
        return;
    while (!__atomic_load_n(tc_word(r, 7), __ATOMIC_ACQUIRE)) {
        WT_REQUIRE(wt_now_ms() < deadline);
        sched_yield();
    }
    snprintf(path, sizeof path, "/proc/%u/fd/%d", said_by(r, 0)->pid, shown(r)->fd);
    hello->fd = open(path, O_RDWR | O_CLOEXEC);
    WT_REQUIRE(hello->fd >= 0);
    hello->device = shown(r)->device;
    hello->inode = shown(r)->inode;
}

static void arena_of_another(struct tc_rank *r)
{
    r->tamper = r->rank == 0 ? show : hostile(r) ? show_arena_of_0 : NULL;
    refused(r, "ranks 0 and 2 show the same arena");
}

/* A pipe: opening it as a file may wait for ever. */
static void show_pipe(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    static int fds[2];

    (void)r, (void)bytes;
    if (round != 0)
        return;
    WT_REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
    ((struct wi_shm_hello *)mine)->fd = fds[0];
}

static void a_pipe(struct tc_rank *r)
{
    r->tamper = hostile(r) ? show_pipe : NULL;
    tc_group(r); /* by objects in /dev/shm, as if the arena could not be opened */
    WT_CHECK(((struct wi_shm_group *)r->group)->may_fault);
    wt_sync();
}

/* An object in /dev/shm of another user, under the name that the rank's would have. */
static void give_away(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    (void)r, (void)bytes;
    if (round == 0)
        WT_REQUIRE(fchown(((struct wi_shm_hello *)mine)->fd, 65534, 65534) == 0);
}

static void another_users(struct tc_rank *r)
{
    r->tamper = hostile(r) ? give_away : NULL;
    refused(r, "what rank 1 shows as its arena is another file");
}

/* One rank's memory would be sealed and the other's not. */
static void say_named(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    (void)r, (void)bytes;
    if (round == 0)
        ((struct wi_shm_hello *)mine)->named = 1;
}

static void mixed_arenas(struct tc_rank *r)
{
    r->tamper = hostile(r) ? say_named : NULL;
    WT_CHECK_STATUS(tc_group_try(r), WEFT_ECONFIG);
    WT_CHECK_STR(r->explained, "ranks 0 and 1 differ in WEFT_SHM_ARENA");
    wt_sync();
}

/* A verdict that is neither success nor a failure. */
static void say_seven(struct tc_rank *r, int round, void *mine, size_t bytes)
{
    (void)r;
    if (round == 1 && bytes == sizeof(int32_t))
        *(int32_t *)mine = 7;
}

static void odd_verdict(struct tc_rank *r)
{
    r->tamper = hostile(r) ? say_seven : NULL;
    refused(r, "rank 1 could not");
}

/* ---- What does it send ---- */

static unsigned char *ring_to(struct tc_rank *r, uint32_t member, uint32_t chan, size_t *bytes)
{
    struct wi_shm_group *group = r->group;

    *bytes = group->layout.ring_bytes;
    return wi_shm_arena_ring(&group->arenas[group->self], &group->layout, member, chan) + WI_SHM_RING_CTL;
}

/* Every line of the ring is a cell like this. */
static void fill_ring(struct tc_rank *r, uint32_t chan, const struct wi_shm_cell *cell)
{
    size_t bytes;
    unsigned char *ring = ring_to(r, 0, chan, &bytes);

    for (size_t at = 0; at < bytes; at += WI_SHM_CELL)
        memcpy(ring + at, cell, sizeof(*cell));
}

static void leave(struct tc_rank *r)
{
    struct wi_shm_group *group = r->group;
    __atomic_store_n(&group->arenas[group->self].ctl->board.state, WEFT_BOARD_LEFT, __ATOMIC_RELEASE);
}

static void blamed(struct tc_rank *r, const char *words)
{
    WT_REQUIRE(tc_wait_failure(r, 10000) != UINT64_MAX);
    WT_CHECK_INT(r->failure.peer, 1);
    WT_CHECK_INT(r->failure.status, WEFT_EPROTO);
    WT_CHECK(strstr(r->failure.text, "rank 1 ") == r->failure.text);
    if (!strstr(r->failure.text, words))
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", words, r->failure.text);
}

/* Cells that move nothing, for ever; looked at by a receive and, on a fresh group, by a peek. */
static void empty_cells(struct tc_rank *r)
{
    static const struct wi_shm_cell empty = {.kind = WI_SHM_CELL_RNDV, .bytes = 1 << 20};
    struct weft_op_info info;
    struct weft_xfer x;
    unsigned char buf[8];
    size_t bytes;

    for (int peek = 0; peek < 2; peek++) {
        tc_group(r);
        if (hostile(r))
            fill_ring(r, 3, &empty);
        wt_sync();
        if (!hostile(r) && peek) {
            WT_CHECK_STATUS(r->ops->peek(r->group, 1, 3, 0, &info, &bytes), WEFT_EPROTO);
            WT_CHECK(strstr(r->explained, "rank 1 ") != NULL);
            blamed(r, "empty piece");
        } else if (!hostile(r)) {
            tc_xfer(&x, 1, 3, buf, sizeof(buf));
            WT_CHECK_OK(r->ops->recv(r->group, &x));
            blamed(r, "empty piece");
            WT_CHECK_INT(x.state, WEFT_EPROTO);
        }
        wt_sync();
        tc_group_end(r, 0);
    }
}

/* A message that never ends, from a rank that has left: the receiver must notice. */
static void without_end(struct tc_rank *r)
{
    static const struct wi_shm_cell more = {.kind = WI_SHM_CELL_MORE, .piece = WI_SHM_CELL, .bytes = 1ull << 60};
    struct wi_shm_cell first = {.kind = WI_SHM_CELL_MESSAGE, .piece = WI_SHM_CELL, .bytes = 1ull << 60};
    struct weft_xfer x[2];
    unsigned char buf[8];
    size_t bytes;

    tc_group(r);
    if (hostile(r)) {
        tc_xfer(&x[0], 0, 3, buf, sizeof(buf));
        first.info = x[0].info;
        memcpy(ring_to(r, 0, 3, &bytes), &first, sizeof(first));
    }
    wt_sync();
    if (!hostile(r)) {
        for (int i = 0; i < 2; i++) {
            tc_xfer(&x[i], 1, 3, buf, sizeof(buf));
            tc_post_recv(r, &x[i]);
        }
        tc_wait(r, x, 1);
        WT_CHECK_INT(x[0].state, WEFT_ETRUNC);
    }
    wt_sync();
    if (hostile(r)) {
        fill_ring(r, 3, &more);
        leave(r);
    }
    wt_sync();
    if (!hostile(r)) {
        WT_REQUIRE(tc_wait_failure(r, 10000) != UINT64_MAX);
        WT_CHECK_INT(r->failure.peer, 1);
        WT_CHECK_INT(x[1].state, WEFT_EPEER);
    }
    wt_sync();
}

/* ---- Direct copies ---- */

/* Whether writing is permitted is asked without writing. */
static void asked(struct tc_rank *r)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    const char nothing = 0;

    tc_group(r);
    WT_CHECK_OK(r->ops->mem_put(r->group, 1 - r->rank, 0, &nothing, 0));
    wt_sync();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
        WT_CHECK_STATUS(r->ops->mem_put(r->group, 1 - r->rank, 0, &nothing, 0), WEFT_ENOTSUP);
    else
        printf("# no seccomp filters here: that a refusal is noticed was not tested\n");
    wt_sync();
}

static unsigned char target[64];

/* A new process with that number, once nobody has it any more; 0: not permitted. It waits for its end. */
static pid_t child_numbered(pid_t pid)
{
    struct clone_args args = {.set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1, .exit_signal = SIGCHLD};
    uint64_t deadline = wt_now_ms() + wt_slow_ms(10000);
    long child;

    do {
        child = syscall(SYS_clone3, &args, sizeof(args));
        if (child < 0)
            sched_yield();
    } while (child < 0 && errno == EEXIST && wt_now_ms() < deadline);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return child > 0 ? (pid_t)child : 0;
}

static struct tc_rank *volatile kept; /* what rank 1 leaves behind is no leak; a store nobody reads must stay */

/* Rank 1 ends and another process gets its number: nothing is read there, or written. */
static void recycled(struct tc_rank *r)
{
    unsigned char mark[64], seen[64];
    struct wi_shm_group *group;
    pid_t pid, child;

    tc_group(r);
    group = r->group;
    pid = (pid_t)group->peers[1].identity.pid;
    if (hostile(r)) {
        kept = r;
        wt_rank_end(); /* as a process that was killed, but for its status */
    }
    memset(mark, 0x5a, sizeof(mark));
    child = child_numbered(pid);
    WT_REQUIRE(child == pid);
    WT_CHECK_STATUS(r->ops->mem_put(r->group, 1, (uintptr_t)target, mark, sizeof(mark)), WEFT_EPEER);
    WT_CHECK_STATUS(r->ops->mem_get(r->group, 1, (uintptr_t)target, seen, sizeof(seen)), WEFT_EPEER);
    snprintf((char *)seen, sizeof(seen), "/proc/%d/mem", child);
    int mem = open((char *)seen, O_RDONLY);
    WT_REQUIRE(mem >= 0 && pread(mem, seen, sizeof(seen), (off_t)(uintptr_t)target) == (ssize_t)sizeof(seen));
    WT_CHECK_INT(seen[0], 0);
    close(mem);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* ---- What killed processes leave behind ---- */

/* An object as a process of that identity would make it. */
static void leave_object(const struct wi_shm_identity *owner, int rank, char name[WI_SHM_NAME_MAX])
{
    wi_shm_object_name(owner, 0x1234567890abcdefull, rank, name);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
}

static int is_there(const char *name)
{
    int fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void makes_a_group(struct tc_rank *r)
{
    tc_group(r);
}

static void run_swept(void)
{
    char names[4][WI_SHM_NAME_MAX];
    struct wi_shm_identity mine, owner;
    pid_t child = fork();
    char state;

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    wi_shm_processes_init(&process_host);
    wi_shm_identity_read(&mine, NULL);
    owner = mine;
    owner.pid = (uint32_t)child;
    CU_ASSERT_FATAL(child > 0 && wi_process_stat((int32_t)owner.pid, &state, &owner.start_ticks));
    leave_object(&owner, 0, names[0]);
    leave_object(&mine, 1, names[1]); /* its process lives */
    owner.pid_ns ^= 1;
    leave_object(&owner, 2, names[2]); /* it cannot be told from here whether this one's does */
    owner.pid_ns ^= 1;
    leave_object(&owner, 3, names[3]);
    if (geteuid() == 0) {
        char path[WI_SHM_NAME_MAX + 16];
        snprintf(path, sizeof(path), "/dev/shm%s", names[3]);
        CU_ASSERT_EQUAL(chown(path, 1, 1), 0); /* another user's */
    } else {
        shm_unlink(names[3]);
    }
    CU_ASSERT_EQUAL(tc_run(&objects, makes_a_group, 2, DEADLINE_MS), 0);
    CU_ASSERT_TRUE(is_there(names[0]));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CU_ASSERT_EQUAL(tc_run(&objects, makes_a_group, 2, DEADLINE_MS), 0);
    CU_ASSERT_FALSE(is_there(names[0]));
    CU_ASSERT_TRUE(is_there(names[1]));
    CU_ASSERT_TRUE(is_there(names[2]));
    CU_ASSERT_EQUAL(is_there(names[3]), geteuid() == 0);
    for (int i = 0; i < 4; i++)
        shm_unlink(names[i]);
}

/* The process ends with it, whatever other threads a sanitizer may have begun. */
static void *ends_with_pipe(void *arg)
{
    char c;

    _exit(read(*(int *)arg, &c, 1) != 0);
}

/* The state that the kernel gives the first thread. */
static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        text[0] = '\0';
    close(fd);
    return strrchr(text, ')') ? strrchr(text, ')')[2] : '?';
}

/* It is a zombie, and its process lives on. */
static void run_first_thread_ended(void)
{
    struct wi_shm_identity its = {.pid = 0};
    struct timespec pause = {.tv_nsec = 1000000};
    pthread_t thread;
    unsigned tries = 0;
    int ends[2];
    char state;

    wi_shm_processes_init(&process_host);
    CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        if (pthread_create(&thread, NULL, ends_with_pipe, &ends[0]) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    its.pid = (uint32_t)child;
    CU_ASSERT_FATAL(child > 0 && wi_process_stat((int32_t)its.pid, &state, &its.start_ticks));
    while (state_of(child) != 'Z' && tries++ < DEADLINE_MS)
        nanosleep(&pause, NULL);
    CU_ASSERT_EQUAL(state_of(child), 'Z');
    CU_ASSERT_TRUE(wi_shm_process_lives(&its));
    close(ends[1]);
    while (wi_shm_process_lives(&its) && tries++ < 2 * DEADLINE_MS)
        nanosleep(&pause, NULL);
    CU_ASSERT_FALSE(wi_shm_process_lives(&its));
    CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
    close(ends[0]);
}

#define CASE(fn, fixture, nranks)                                        \
    static void run_##fn(void)                                           \
    {                                                                    \
        CU_ASSERT_EQUAL(tc_run(&(fixture), fn, nranks, DEADLINE_MS), 0); \
    }
CASE(as_another_rank, processes, 3)
CASE(as_a_stranger, objects, 2)
CASE(as_oneself, processes, 2)
CASE(from_afar, processes, 2)
CASE(unsealed, processes, 2)
CASE(arena_of_another, processes, 3)
CASE(a_pipe, processes, 2)
CASE(mixed_arenas, processes, 2)
CASE(odd_verdict, processes, 2)
CASE(empty_cells, processes, 2)
CASE(without_end, processes, 2)

static void run_asked(void)
{
    if (process_vm_writev(getpid(), NULL, 0, NULL, 0, 0) < 0 && errno == ENOSYS) {
        wt_skip("no process_vm_writev here");
        return;
    }
    CU_ASSERT_EQUAL(tc_run(&processes, asked, 2, DEADLINE_MS), 0);
}

static void run_recycled(void)
{
    pid_t pid = fork(), again;

    if (pid == 0)
        _exit(0);
    CU_ASSERT_FATAL(pid > 0 && waitpid(pid, NULL, 0) == pid);
    again = child_numbered(pid);
    if (!again) {
        wt_skip("this process may not choose the numbers of others: %s", strerror(errno));
        return;
    }
    kill(again, SIGKILL);
    waitpid(again, NULL, 0);
    CU_ASSERT_EQUAL(tc_run(&processes, recycled, 2, DEADLINE_MS), 0);
}

/* A process without descriptors cannot look into /proc: that says nothing of the other processes. */
static void run_unseen(void)
{
    struct wi_shm_identity peer;
    struct rlimit before, none;
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    wi_shm_processes_init(&process_host);
    wi_shm_identity_read(&peer, NULL);
    CU_ASSERT_FATAL(child > 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){0, before.rlim_max};
    CU_ASSERT_NOT_EQUAL(wi_shm_process_lives(&peer), 0);
    peer.start_ticks++;
    CU_ASSERT_EQUAL(wi_shm_process_lives(&peer), 0); /* its number is another's now */
    peer.pid = (uint32_t)child;
    CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int there = wi_shm_process_lives(&peer);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int gone = wi_shm_process_lives(&peer);
    setrlimit(RLIMIT_NOFILE, &before);
    CU_ASSERT_NOT_EQUAL(there, 0);
    CU_ASSERT_EQUAL(gone, 0);
}

static void run_another_users(void)
{
    if (geteuid() != 0) {
        wt_skip("only root can give files away");
        return;
    }
    CU_ASSERT_EQUAL(tc_run(&objects, another_users, 2, DEADLINE_MS), 0);
}

static const struct wt_case cases[] = {
    {"a rank that says it is another rank's process is refused", run_as_another_rank},
    {"a rank that says it is a stranger's process is refused", run_as_a_stranger},
    {"a rank that says it is this process is refused", run_as_oneself},
    {"a rank of another machine is refused", run_from_afar},
    {"memory that can be taken away is refused", run_unsealed},
    {"another rank's arena is refused", run_arena_of_another},
    {"a pipe in place of an arena holds nobody up", run_a_pipe},
    {"another user's object is refused", run_another_users},
    {"arenas of two kinds are refused", run_mixed_arenas},
    {"a verdict that is none is refused", run_odd_verdict},
    {"cells that move nothing are refused", run_empty_cells},
    {"a message without end ends with its sender", run_without_end},
    {"whether memory may be written is asked without writing", run_asked},
    {"a process that has the number of a dead one is let be", run_recycled},
    {"a process that cannot be looked at has not ended", run_unseen},
    {"objects that killed processes have left are removed", run_swept},
    {"a process whose first thread has ended lives on", run_first_thread_ended},
};
WT_UNIT_MAIN("shm_hostile", cases)
