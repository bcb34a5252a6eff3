/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that starts and runs while another process connects to every port it listens at, some thousand times a second, from the
 * ranks' own address. The test asks that every rank reaches every other, not how long that takes. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fault/fault.h"

#define RANKS 8
#define PORTS_MAX 256
#define HELD 400
#define HALF_OPEN "16" /* fewer than strangers hold at each port, so that some must give way */

struct flood {
    long connects; /* so far */
    int ports;     /* listened at when it last looked */
};

/* A network of its own: only this job listens in it. 0, or errno. */
static int own_network(void)
{
    struct ifreq up = {.ifr_name = "lo"};
    if (unshare(CLONE_NEWNET))
        return errno;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &up))
        err = errno;
    up.ifr_flags |= IFF_UP;
    if (!err && ioctl(fd, SIOCSIFFLAGS, &up))
        err = errno;
    if (fd >= 0)
        close(fd);
    return err;
}

static int listening(uint16_t ports[PORTS_MAX])
{
    char line[256];
    int n = 0;
    FILE *f = fopen("/proc/net/tcp", "re");
    while (f && n < PORTS_MAX && fgets(line, sizeof line, f)) {
        unsigned port, state;
        if (sscanf(line, " %*d: %*8x:%x %*8x:%*x %x", &port, &state) == 2 && state == 0x0a)
            ports[n++] = (uint16_t)port;
    }
    if (f)
        fclose(f);
    return n;
}

/* Silent, talkative, or half a hello; from the ranks' address and from others. */
static int one_more(uint16_t port, long i)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(i % 3))};
    static const char junk[200] = "WFTA\2\1";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&from, sizeof from) ||
        (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS)) {
        close(fd);
        return -1;
    }
    if (i % 4 > 1)
        send(fd, junk, i % 4 == 2 ? 50 : sizeof junk, MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
}

static _Noreturn void flood_for_ever(struct flood *flood)
{
    uint16_t ports[PORTS_MAX];
    int held[HELD], n = 0;
    memset(held, -1, sizeof held);
    for (long i = 0;; i++) {
        if (i % 20 == 0) {
            struct timespec pause = {.tv_nsec = 10000000}; /* 2,000 a second, if the machine has the time */
            nanosleep(&pause, NULL);
            n = listening(ports);
            __atomic_store_n(&flood->ports, n, __ATOMIC_RELAXED);
        }
        if (!n)
            continue;
        if (held[i % HELD] >= 0)
            close(held[i % HELD]);
        held[i % HELD] = one_more(ports[i % n], i);
        if (held[i % HELD] >= 0)
            __atomic_fetch_add(&flood->connects, 1, __ATOMIC_RELAXED);
    }
}

static void body(int rank, int nranks, void *arg)
{
    struct flood *flood = arg;
    struct ft_rank f;
    int peers[RANKS];
    for (int again = 0; again < 3; again++) {
        ft_open(&f, "tcp", wt_slow_ms(60000), rank, nranks);
        /* Under way at every port of the job before the ranks connect to each other, and all the while. */
        long then = __atomic_load_n(&flood->connects, __ATOMIC_RELAXED);
        uint64_t until = wt_now_ms() + wt_slow_ms(20000);
        while (__atomic_load_n(&flood->connects, __ATOMIC_RELAXED) < then + 300 && wt_now_ms() < until)
            usleep(1000);
        WT_REQUIRE(__atomic_load_n(&flood->connects, __ATOMIC_RELAXED) >= then + 300);
        WT_CHECK(__atomic_load_n(&flood->ports, __ATOMIC_RELAXED) >= nranks);
        WT_REQUIRE_OK(weft_all_to_all(f.comm, (int[RANKS]){rank, rank, rank, rank, rank, rank, rank, rank}, peers, 1,
                                      WEFT_INT32, NULL));
        for (int r = 0; r < nranks; r++)
            WT_CHECK_INT(peers[r], r);
        WT_REQUIRE_OK(weft_barrier(f.comm, NULL));
        WT_CHECK_OK(weft_comm_destroy(f.comm));
        WT_CHECK_OK(weft_context_destroy(f.context));
    }
}

/* Connections that the ranks' tcp transports have closed to make room for others. */
static int evicted(const char *log)
{
    char line[2048];
    int n = 0;
    FILE *f = fopen(log, "re");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "tcp.refuse") && strstr(line, "too many connections");
    if (f)
        fclose(f);
    return n;
}

static void flooded(void)
{
    int err = own_network();
    char log[600], spec[640];
    if (err) {
        wt_skip("no network namespace: %s", strerror(err));
        return;
    }
    setenv("WEFT_TCP_INTERFACES", "lo", 1);
    setenv("WEFT_TCP_HALF_OPEN", HALF_OPEN, 1);
    setenv("WEFT_TCP_AUTH_TIMEOUT", "1min",
           1); /* strangers go because there are too many of them, not for being late */
    snprintf(log, sizeof log, "%s/log", wt_temp_dir());
    snprintf(spec, sizeof spec, "info,file:%s", log);
    setenv("WEFT_LOG", spec, 1);
    struct flood *flood = mmap(NULL, sizeof *flood, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(flood != MAP_FAILED);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        flood_for_ever(flood);
    }
    CU_ASSERT_EQUAL(wt_run(RANKS, body, flood, 120000), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int gone = evicted(log);
    printf("# %ld connections, %d of them gave way to others\n", flood->connects, gone);
    CU_ASSERT(gone > 0);
    munmap(flood, sizeof *flood);
}

static const struct wt_case cases[] = {
    {"8 ranks start, three times, while strangers connect to all their ports", flooded},
};

WT_UNIT_MAIN("flood", cases)
