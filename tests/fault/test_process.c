/* What happens to a process that holds a communicator: signals in every call, children that it forks, programs that it starts or
 * becomes.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { MOST = 40000 };

static int64_t src[4 * MOST], dst[4 * MOST];

static int64_t given(int rank, int round, size_t i)
{
    return (int64_t)(rank + 1) * 1000003 + (int64_t)round * 8191 + (int64_t)i * 7 + 1;
}

static void fill(int rank, int round, size_t n)
{
    for (size_t i = 0; i < n; i++)
        src[i] = given(rank, round, i);
    memset(dst, 0x5a, n * sizeof *dst);
}

static void check_sum(int nranks, int round, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int r = 0; r < nranks; r++)
            sum += given(r, round, i);
        wrong += dst[i] != sum;
    }
    if (wrong)
        wt_fail(__FILE__, __LINE__, "round %d: %zu of %zu sums are wrong", round, wrong, n);
}

static void reduce_round(weft_comm *comm, int rank, int nranks, int round, size_t n)
{
    weft_request *req = NULL;

    fill(rank, round, n);
    WT_REQUIRE_OK(weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, round % 2 ? &req : NULL));
    if (req)
        WT_REQUIRE_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
    check_sum(nranks, round, n);
}

/* Around the ring, so that every rank sends and receives. */
static void pass_round(weft_comm *comm, int rank, int nranks, int round, size_t n)
{
    int from = (rank + nranks - 1) % nranks;
    size_t wrong = 0;

    fill(rank, round, n);
    WT_REQUIRE_OK(weft_send_recv(comm, src, n, (rank + 1) % nranks, 0, dst, n, from, 0, WEFT_INT64, NULL));
    for (size_t i = 0; i < n; i++)
        wrong += dst[i] != given(from, round, i);
    WT_CHECK_INT(wrong, 0);
    WT_REQUIRE_OK(weft_barrier(comm, NULL));
}

/* ---- Signals: without SA_RESTART, to every thread of the process, all the time ---- */

static _Atomic int storming, struck;

static void on_signal(int signum)
{
    (void)signum;
    struck++;
}

static void strike_all(void)
{
    pid_t own = (pid_t)syscall(SYS_gettid);
    DIR *tasks = opendir("/proc/self/task");

    if (!tasks)
        return;
    for (struct dirent *d; (d = readdir(tasks));)
        if (d->d_name[0] != '.' && atoi(d->d_name) != own)
            syscall(SYS_tgkill, getpid(), atoi(d->d_name), SIGUSR1);
    closedir(tasks);
}

static void *storm(void *arg)
{
    (void)arg;
    while (storming) {
        strike_all();
        usleep(150);
    }
    return NULL;
}

static void use_everything(weft_context *context, int rank, int nranks)
{
    static const size_t sizes[] = {1, 500, MOST};
    weft_comm *comm, *copy;
    void *memory;

    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    for (int round = 0; round < 45; round++) {
        reduce_round(comm, rank, nranks, round, sizes[round % 3]);
        pass_round(comm, rank, nranks, round, sizes[(round + 1) % 3]);
    }
    WT_REQUIRE_OK(weft_comm_dup(comm, NULL, &copy));
    reduce_round(copy, rank, nranks, 99, 1000);
    weft_status st = weft_mem_alloc(context, 1 << 20, &memory);
    WT_CHECK(st == WEFT_SUCCESS || st == WEFT_ENOTSUP); /* tcp has none to share */
    if (st == WEFT_SUCCESS)
        WT_CHECK_OK(weft_mem_free(context, memory));
    WT_CHECK_OK(weft_comm_destroy(copy));
    WT_CHECK_OK(weft_comm_destroy(comm));
}

static void interrupted_body(int rank, int nranks, void *arg)
{
    char setting[64];
    const char *settings[] = {setting, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    struct sigaction action = {.sa_handler = on_signal}; /* calls end with EINTR */
    weft_context *context;
    pthread_t thread;
    sigset_t all, before;

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", (const char *)arg);
    config.settings = settings;
    WT_REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    sigfillset(&all);
    storming = 1;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    WT_REQUIRE(pthread_create(&thread, NULL, storm, NULL) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 3; i++) {
        WT_REQUIRE_OK(weft_context_create(&config, &context));
        wt_check_settings(context, config.settings);
        use_everything(context, rank, nranks);
        WT_CHECK_OK(weft_context_destroy(context));
    }
    storming = 0;
    pthread_join(thread, NULL);
    WT_CHECK(struck > 50);
    fprintf(stderr, "%d signals\n", struck);
}

static void interrupted(void)
{
    CU_ASSERT_EQUAL(wt_run(3, interrupted_body, (void *)(uintptr_t) "shm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, interrupted_body, (void *)(uintptr_t) "tcp", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, interrupted_body, (void *)(uintptr_t) "shm,tcp", 30000), 0);
}

/* ---- A forked child that uses what is its parent's ---- */

struct child_says {
    weft_status group, reduce, wait, destroy, dup, finish;
    char text[256];
    char unsaid[256]; /* calls whose refusal does not speak of the fork */
    int done;
};

static void note_unsaid(struct child_says *says, const char *call, weft_status status)
{
    size_t used = strlen(says->unsaid);
    if (status != WEFT_EINVAL || !strstr(weft_thread_error(), "this process was forked"))
        snprintf(says->unsaid + used, sizeof says->unsaid - used, " %s", call);
}

static void visit(void *arg, const weft_plugin_info *plugin)
{
    (void)arg, (void)plugin;
}

static void visit_setting(void *arg, const char *name, const char *value, const char *fallback, const char *origin,
                          const char *help)
{
    (void)arg, (void)name, (void)value, (void)fallback, (void)origin, (void)help;
}

/* Every call on the parent's context. */
static void use_context(weft_context *context, struct child_says *says)
{
    weft_security security = WEFT_SECURITY_INIT;
    static int64_t word;
    size_t bytes;
    weft_unique_id id;
    weft_comm *comm;
    weft_mem *mem;
    void *p = &word;

    note_unsaid(says, "settings", weft_context_settings(context, visit_setting, NULL));
    note_unsaid(says, "check", weft_context_check(context));
    note_unsaid(says, "security", weft_context_security(context, &security));
    note_unsaid(says, "plugins", weft_context_plugins(context, visit, NULL));
    note_unsaid(says, "unique_id", weft_unique_id_create(context, &id));
    note_unsaid(says, "comm_create_env", weft_comm_create_env(context, NULL, &comm));
    note_unsaid(says, "mem_alloc", weft_mem_alloc(context, 4096, &p));
    note_unsaid(says, "mem_free", weft_mem_free(context, &word));
    note_unsaid(says, "mem_register", weft_mem_register(context, &word, sizeof word, &mem));
    note_unsaid(says, "mem_pool_alloc", weft_mem_pool_alloc(context, 4096, &p));
    note_unsaid(says, "mem_pool_free", weft_mem_pool_free(context, &word));
    note_unsaid(says, "mem_pool_reserved", weft_mem_pool_reserved(context, &bytes));
    note_unsaid(says, "destroy", weft_context_destroy(context));
}

static void completed(weft_status status, void *arg)
{
    (void)status;
    (void)arg;
}

static void use_communicator(weft_comm *comm, weft_request *req, struct child_says *says)
{
    weft_call call = wt_call(WEFT_KIND_BROADCAST, NULL, NULL, 0, WEFT_INT64);
    weft_message message = WEFT_MESSAGE_INIT;
    weft_error error = WEFT_ERROR_INIT;
    weft_request *made = NULL;
    const char *text;
    int64_t word = 0;
    weft_comm *part;
    size_t index;
    int n;

    note_unsaid(says, "barrier", weft_barrier(comm, NULL));
    note_unsaid(says, "barrier with a request", weft_barrier(comm, &made));
    note_unsaid(says, "send", weft_send(comm, &word, 1, WEFT_INT64, 0, 0, NULL));
    note_unsaid(says, "recv", weft_recv(comm, &word, 1, WEFT_INT64, 0, 0, NULL));
    note_unsaid(says, "issue", weft_issue(comm, &call, NULL));
    note_unsaid(says, "persistent", weft_persistent(comm, &call, &made));
    note_unsaid(says, "probe", weft_probe(comm, 0, 0, 0, &message));
    note_unsaid(says, "set_timeout", weft_comm_set_timeout(comm, 1));
    note_unsaid(says, "split", weft_comm_split(comm, 0, 0, NULL, &part));
    note_unsaid(says, "topology", weft_comm_topology(comm, NULL, &text));
    note_unsaid(says, "newest_algorithm", weft_comm_newest_algorithm(comm, &text));
    note_unsaid(says, "dump", weft_comm_dump(comm, "/dev/null"));
    note_unsaid(says, "abort", weft_comm_abort(comm, "from the child"));
    note_unsaid(says, "status", weft_comm_status(comm));
    note_unsaid(says, "last_error", weft_last_error(comm, &error));
    note_unsaid(says, "rank", weft_comm_rank(comm, &n));
    note_unsaid(says, "test", weft_test(req));
    note_unsaid(says, "wait_for", weft_wait_for(req, 1));
    note_unsaid(says, "wait_any", weft_wait_any(&req, 1, &index));
    note_unsaid(says, "wait_all", weft_wait_all(&req, 1));
    note_unsaid(says, "start", weft_start(req));
    note_unsaid(says, "request_message", weft_request_message(req, &message));
    note_unsaid(says, "request_on_complete", weft_request_on_complete(req, completed, NULL));
    note_unsaid(says, "request_free", weft_request_free(req));
}

static void play_child(struct ft_rank *f, weft_request *req, struct child_says *says)
{
    weft_comm *copy;
    int64_t one = 1, sum = 0;

    says->group = weft_group_end(); /* with calls that the parent had begun */
    says->reduce = weft_all_reduce(f->comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
    snprintf(says->text, sizeof says->text, "%s", weft_thread_error());
    says->wait = weft_wait(req);
    says->dup = weft_comm_dup(f->comm, NULL, &copy);
    use_communicator(f->comm, req, says);
    says->destroy = weft_comm_destroy(f->comm);
    use_context(f->context, says);
    says->finish = weft_context_destroy(f->context);
    says->done = 1;
    _exit(0);
}

static void check_child(struct child_says *says, pid_t pid)
{
    int status = -1;

    WT_REQUIRE(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        wt_fail(__FILE__, __LINE__, "the child ended with wait status 0x%x", status);
    WT_CHECK(says->done);
    WT_CHECK_INT(says->group, WEFT_EINVAL);
    WT_CHECK(says->reduce < 0 && says->wait < 0 && says->dup < 0 && says->destroy < 0 && says->finish < 0);
    if (*says->unsaid)
        wt_fail(__FILE__, __LINE__, "these calls of the child do not say that it was forked:%s", says->unsaid);
    if (!strstr(says->text, "fork"))
        wt_fail(__FILE__, __LINE__, "the child was told: %s: %s", weft_status_name(says->reduce), says->text);
}

static void forking_body(int rank, int nranks, void *arg)
{
    struct child_says *says = mmap(NULL, sizeof *says, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    weft_request *req = NULL;
    int64_t late = 0;
    struct ft_rank f;
    pid_t pid = -1;

    WT_REQUIRE(says != MAP_FAILED);
    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(weft_recv(f.comm, &late, 1, WEFT_INT64, (rank + nranks - 1) % nranks, 0, &req));
    wt_sync();
    int64_t given = rank, taken = -1;
    WT_REQUIRE_OK(weft_group_start());
    WT_REQUIRE_OK(weft_send(f.comm, &given, 1, WEFT_INT64, (rank + 2) % nranks, 0, NULL));
    WT_REQUIRE_OK(weft_recv(f.comm, &taken, 1, WEFT_INT64, (rank + nranks - 2) % nranks, 0, NULL));
    if (rank == 1 && (pid = fork()) == 0)
        play_child(&f, req, says);
    WT_REQUIRE_OK(weft_group_end());
    WT_CHECK_INT(taken, (rank + nranks - 2) % nranks);
    for (int round = 0; round < 20; round++) /* while the child does what it must not */
        reduce_round(f.comm, rank, nranks, round, round % 3 ? 500 : MOST);
    if (rank == 1)
        check_child(says, pid);
    int64_t word = 77;
    WT_REQUIRE_OK(weft_send(f.comm, &word, 1, WEFT_INT64, (rank + 1) % nranks, 0, NULL));
    WT_REQUIRE_OK(weft_wait(req));
    WT_CHECK_INT(late, 77);
    WT_CHECK_OK(weft_request_free(req));
    for (int round = 20; round < 30; round++)
        reduce_round(f.comm, rank, nranks, round, 500);
    ft_close(&f);
    munmap(says, sizeof *says);
}

static void forked(void)
{
    CU_ASSERT_EQUAL(wt_run(3, forking_body, (void *)(uintptr_t) "shm", 20000), 0);
    CU_ASSERT_EQUAL(wt_run(3, forking_body, (void *)(uintptr_t) "tcp", 20000), 0);
}

/* ---- Programs that a rank starts ---- */

/* What a program that is started now finds open, one line each. */
static void open_in_child(char *text, size_t capacity)
{
    int fds[2], status;
    ssize_t got = 0, n;

    WT_REQUIRE(pipe(fds) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execl("/bin/sh", "sh", "-c",
              "exec 3>&1; for f in /proc/$$/fd/*; do readlink $f; done | grep -v '^pipe:\\|/proc/\\|/dev/null'",
              (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    while ((n = read(fds[0], text + got, capacity - 1 - (size_t)got)) > 0)
        got += n;
    text[got] = '\0';
    close(fds[0]);
    WT_REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
}

static void starting_body(int rank, int nranks, void *arg)
{
    static char before[8192], after[8192];
    struct ft_rank f;
    void *memory = NULL;

    open_in_child(before, sizeof before);
    ft_open(&f, arg, 20000, rank, nranks);
    weft_mem_alloc(f.context, 1 << 20, &memory);
    for (int round = 0; round < 10; round++) {
        reduce_round(f.comm, rank, nranks, round, round % 3 ? 500 : MOST);
        pass_round(f.comm, rank, nranks, round, 5000);
        if (round % 3 == 1) {
            open_in_child(after, sizeof after);
            WT_CHECK_STR(after, before); /* nothing of the library's is inherited */
        }
    }
    WT_CHECK_OK(weft_mem_free(f.context, memory));
    ft_close(&f);
}

static void started(void)
{
    CU_ASSERT_EQUAL(wt_run(2, starting_body, (void *)(uintptr_t) "shm", 20000), 0);
    CU_ASSERT_EQUAL(wt_run(2, starting_body, (void *)(uintptr_t) "tcp", 20000), 0);
}

/* ---- A rank that becomes another program ---- */

enum { BECOMES = 1 };
struct shared {
    const char *transport;
    _Atomic uint64_t became_ms, heard_ms[3];
};

static void becoming_body(int rank, int nranks, void *arg)
{
    struct shared *sh = arg;
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;

    ft_open(&f, sh->transport, wt_slow_ms(2000), rank, nranks);
    for (int round = 0; round < 10; round++)
        reduce_round(f.comm, rank, nranks, round, 500);
    wt_sync();
    if (rank == BECOMES) {
        wt_rank_leaves();
        sh->became_ms = wt_now_ms();
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    }
    for (int64_t one = 1, sum; st == WEFT_SUCCESS;)
        st = weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
    sh->heard_ms[rank] = wt_now_ms();
    /* Its sockets are closed. In shared memory it is a process that lives and does not call. */
    WT_CHECK_STATUS(st, strcmp(sh->transport, "tcp") ? WEFT_ETIMEDOUT : WEFT_EPEER);
    weft_error e = ft_error(&f);
    WT_CHECK_INT(e.peer, BECOMES);
    WT_CHECK(sh->heard_ms[rank] - sh->became_ms <= wt_slow_ms(5000));
    fprintf(stderr, "%s\n", e.message);
    ft_close(&f);
}

static void became(void)
{
    static const char *const transports[] = {"shm", "tcp"};
    struct shared *sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(sh != MAP_FAILED);
    for (int t = 0; t < 2; t++) {
        memset(sh, 0, sizeof *sh);
        sh->transport = transports[t];
        struct wt_job *job = wt_job_start(3, becoming_body, sh);
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        wt_job_expect_signal(job, BECOMES, SIGKILL);
        for (uint64_t until = wt_now_ms() + wt_slow_ms(25000); wt_now_ms() < until; usleep(2000))
            if (sh->heard_ms[0] && sh->heard_ms[2])
                break;
        kill(wt_job_pid(job, BECOMES), SIGKILL);
        CU_ASSERT_EQUAL(wt_job_wait(job, 10000), 0);
        printf("# over %s they knew after %d and %d ms\n", transports[t], (int)(sh->heard_ms[0] - sh->became_ms),
               (int)(sh->heard_ms[2] - sh->became_ms));
    }
    munmap(sh, sizeof *sh);
}

static const struct wt_case cases[] = {
    {"calls that signals interrupt", interrupted},
    {"programs inherit nothing", started},
    {"a rank that becomes another program", became},
    {"a forked child is refused, its parent goes on", forked},
};
WT_UNIT_MAIN("process", cases)
