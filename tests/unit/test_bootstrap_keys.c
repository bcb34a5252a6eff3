/* SPDX-License-Identifier: BSD-3-Clause */
/* A configured job key in every way to start but the environment's: agreed, different, missing; and an out-of-band exchange that is
 * tampered with, byte by byte, or that plays back another job. */
#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/status.h"
#include "tests/harness/harness.h"
#include "net/auth.h"
#include "net/auth_mac.h"
#include "net/bootstrap.h"
#include "net/rendezvous.h"

#define MS 1000000ull
#define PAYLOAD 24
#define NRANKS 3

static uint64_t in_ms(unsigned ms)
{
    return wi_deadline_ns(wt_slow_ms(ms) * MS);
}

static int key_fd(int fill)
{
    unsigned char key[32];
    int fd = memfd_create("key", MFD_CLOEXEC);
    memset(key, fill, sizeof(key));
    return fd >= 0 && write(fd, key, sizeof(key)) == sizeof(key) ? fd : -1;
}

/* `fill` 0: no key. */
static struct wi_bootstrap_settings keyed(int fill)
{
    return (struct wi_bootstrap_settings){.job_key_fd = fill ? key_fd(fill) : -1};
}

static void says(const char *part)
{
    if (!strstr(wi_fail_text(), part))
        wt_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", wi_fail_text(), part);
}

static void says_rank(int rank)
{
    char text[24];
    snprintf(text, sizeof(text), "rank %d", rank);
    says(text);
}

static void check_gather(struct wi_bootstrap *b, size_t bytes)
{
    unsigned char mine[64], all[NRANKS * 64];
    memset(mine, b->rank + 1, sizeof(mine));
    memset(all, 0, sizeof(all));
    WT_CHECK_OK(b->all_gather(b, mine, bytes, all, in_ms(20000)));
    for (size_t i = 0; i < bytes * (size_t)b->nranks; i++)
        if (all[i] != i / bytes + 1) {
            wt_fail(__FILE__, __LINE__, "byte %zu is %d", i, all[i]);
            return;
        }
}

/* ---- The caller's all-gather ---- */

/* What a tampering store does in one exchange: flips a bit of one contribution, as all ranks see it or as one of them does. */
struct tamper {
    int exchange, peer, seen_by; /* seen_by -1: all */
    size_t at;
    size_t bytes; /* out: size of that exchange's contributions */
};

struct caller {
    struct tamper *tamper;
    int rank, nranks, exchanges;
    unsigned char jobs_key[32];
};

static int tampering(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct caller *c = arg;
    struct tamper *t = c->tamper;
    int err = wt_exchange(NULL, mine, bytes, all, timeout_ns);
    if (t && c->exchanges == t->exchange) {
        if (c->rank == 0)
            t->bytes = bytes;
        if (t->at < bytes && (t->seen_by < 0 || t->seen_by == c->rank))
            ((unsigned char *)all)[(size_t)t->peer * bytes + t->at] ^= 0x10;
    }
    c->exchanges++;
    return err;
}

static weft_status meet(struct caller *c, int rank, int nranks, int fill, struct wi_bootstrap **b)
{
    weft_oob oob = {sizeof(oob), rank, nranks, tampering, c};
    struct wi_bootstrap_settings s = keyed(fill);
    c->rank = rank;
    weft_status st = wi_bootstrap_oob(&s, &oob, in_ms(20000), b);
    if (s.job_key_fd >= 0)
        close(s.job_key_fd);
    return st;
}

static void agreed_body(int rank, int nranks, void *arg)
{
    static unsigned char keys[4][NRANKS][32];
    (void)arg;
    for (int i = 0; i < 4; i++) { /* without, without, with, with */
        struct caller c = {.tamper = NULL};
        struct wi_bootstrap *b;
        WT_REQUIRE_OK(meet(&c, rank, nranks, i < 2 ? 0 : 7, &b));
        memcpy(keys[i][rank], b->job_key, 32);
        check_gather(b, PAYLOAD);
        check_gather(b, 0);
        check_gather(b, 64);
        b->destroy(b);
    }
    wt_sync();
    for (int i = 0; i < 4; i++) {
        WT_CHECK_MEM(keys[i][rank], keys[i][0], 32);
        for (int other = 0; other < i; other++)
            WT_CHECK(memcmp(keys[i][rank], keys[other][rank], 32) != 0);
    }
}

static void agreed(void)
{
    CU_ASSERT_EQUAL(wt_threads(NRANKS, agreed_body, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_threads(1, agreed_body, NULL, 60000), 0);
}

/* Rank 1 says, with the right key, that it speaks another version. */
static int newer_version(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct caller *c = arg;
    unsigned char hello[256], secret[32];
    struct wi_auth_key key;
    if (c->rank != 1 || c->exchanges++ > 0 || bytes > sizeof(hello))
        return wt_exchange(NULL, mine, bytes, all, timeout_ns);
    struct wi_auth_part part = {mine, bytes - WI_AUTH_MAC_BYTES};
    memset(secret, 7, sizeof(secret));
    ((unsigned char *)(uintptr_t)mine)[4]++; /* what is compared with its own place in `all`, too */
    if (wi_auth_derive(secret, sizeof(secret), "oob", "weft out-of-band hello", &key) ||
        wi_auth_mac(key.key, "weft out-of-band hello", &part, 1,
                    (unsigned char *)(uintptr_t)mine + bytes - WI_AUTH_MAC_BYTES))
        return 1;
    return wt_exchange(NULL, mine, bytes, all, timeout_ns);
}

static void newer_body(int rank, int nranks, void *arg)
{
    struct caller c = {.rank = rank};
    weft_oob oob = {sizeof(oob), rank, nranks, newer_version, &c};
    struct wi_bootstrap_settings s = keyed(7);
    struct wi_bootstrap *b;
    (void)arg;
    WT_CHECK_STATUS(wi_bootstrap_oob(&s, &oob, in_ms(20000), &b), WEFT_EMISMATCH);
    says("rank 1 runs another version of weft");
    close(s.job_key_fd);
}

static void newer(void)
{
    CU_ASSERT_EQUAL(wt_threads(NRANKS, newer_body, NULL, 60000), 0);
}

static void other_key_body(int rank, int nranks, void *arg)
{
    int fill = rank == 1 ? *(int *)arg : 7;
    struct caller c = {.tamper = NULL};
    struct wi_bootstrap *b;
    WT_CHECK_STATUS(meet(&c, rank, nranks, fill, &b), WEFT_EAUTH);
    says_rank(nranks > 2 ? 1 : 1 - rank);
    says(fill || rank != 1 ? "job key" : "no job key");
}

static void other_keys(void)
{
    int other = 8, none = 0;
    CU_ASSERT_EQUAL(wt_threads(2, other_key_body, &other, 60000), 0);
    CU_ASSERT_EQUAL(wt_threads(NRANKS, other_key_body, &other, 60000), 0);
    CU_ASSERT_EQUAL(wt_threads(NRANKS, other_key_body, &none, 60000), 0);
}

/* hello, verdicts; payload, verdicts; payload, verdicts. */
#define EXCHANGES 6

static void tampered_body(int rank, int nranks, void *arg)
{
    struct tamper *t = arg;
    while (t->at < t->bytes) {
        struct caller c = {.tamper = t};
        struct wi_bootstrap *b = NULL;
        unsigned char mine[PAYLOAD] = {0}, all[NRANKS * PAYLOAD];
        weft_status st = meet(&c, rank, nranks, 7, &b);
        WT_CHECK_STATUS(st, t->exchange < 2 ? WEFT_EAUTH : WEFT_SUCCESS);
        for (int i = 1; i < EXCHANGES / 2 && b && st >= 0; i++) {
            st = b->all_gather(b, mine, sizeof(mine), all, in_ms(20000));
            WT_CHECK_STATUS(st, i < t->exchange / 2 ? WEFT_SUCCESS : WEFT_EAUTH);
        }
        if (rank != t->peer || t->seen_by < 0)
            says_rank(t->seen_by < 0 || t->seen_by == rank ? t->peer : t->seen_by);
        if (b) {
            WT_CHECK_STATUS(b->all_gather(b, mine, sizeof(mine), all, in_ms(20000)), WEFT_EAUTH); /* for good */
            b->destroy(b);
        }
        if (wt_failures())
            wt_fail(__FILE__, __LINE__, "exchange %d, byte %zu, seen by %d", t->exchange, t->at, t->seen_by);
        wt_sync();
        WT_REQUIRE(wt_failures() == 0);
        if (rank == 0)
            t->at++;
        wt_sync();
    }
}

static void tampered(void)
{
    for (int exchange = 0; exchange < EXCHANGES; exchange++) {
        struct tamper t = {.exchange = exchange, .peer = 1, .seen_by = -1, .bytes = 1};
        CU_ASSERT_EQUAL_FATAL(wt_threads(NRANKS, tampered_body, &t, 120000), 0);
        CU_ASSERT(t.bytes >= 40);
        t.seen_by = 2; /* verdicts that one rank alone cannot believe stop that rank alone: see the next exchange */
        t.at = 0;
        if (exchange % 2 == 0)
            CU_ASSERT_EQUAL_FATAL(wt_threads(NRANKS, tampered_body, &t, 120000), 0);
    }
}

/* Everything that rank 1 said in one job, to rank 0 of the next one with the same key. */
struct record {
    unsigned char said[EXCHANGES][256];
    size_t bytes[EXCHANGES];
    int play, next;
};

static int recording(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct record *r = arg;
    if (r->play) {
        if (r->next == EXCHANGES || r->bytes[r->next] != bytes)
            return 1;
        memcpy(all, mine, bytes);
        memcpy((unsigned char *)all + bytes, r->said[r->next++], bytes);
        return 0;
    }
    int err = wt_exchange(NULL, mine, bytes, all, timeout_ns);
    if (r->next < EXCHANGES && bytes <= sizeof(r->said[0])) {
        r->bytes[r->next] = bytes;
        memcpy(r->said[r->next++], (unsigned char *)all + bytes, bytes);
    }
    return err;
}

static void replay_body(int rank, int nranks, void *arg)
{
    struct record r = {.play = 0};
    weft_oob oob = {sizeof(oob), rank, nranks, recording, &r};
    struct wi_bootstrap_settings s = keyed(7);
    struct wi_bootstrap *b;
    (void)arg;
    WT_REQUIRE_OK(wi_bootstrap_oob(&s, &oob, in_ms(20000), &b));
    check_gather(b, PAYLOAD);
    b->destroy(b);
    r.play = 1;
    r.next = 0;
    if (rank == 0) {
        WT_CHECK_STATUS(wi_bootstrap_oob(&s, &oob, in_ms(20000), &b), WEFT_EAUTH);
        says_rank(1);
        WT_CHECK_INT(r.next, 2); /* the hello verifies, what follows from fresh nonces does not */
    }
    close(s.job_key_fd);
}

static void replayed(void)
{
    CU_ASSERT_EQUAL(wt_threads(2, replay_body, NULL, 60000), 0);
}

/* ---- Unique ids and files ---- */

struct meeting {
    weft_unique_id id;
    char path[512];
    int fills[2]; /* of rank 0, of the others */
};

static weft_status meet_by(int file, const struct meeting *m, const struct wi_bootstrap_settings *s, int rank,
                           int nranks, unsigned ms, struct wi_bootstrap **b)
{
    return file ? wi_bootstrap_file(s, m->path, rank, nranks, in_ms(ms), b)
                : wi_bootstrap_id(s, &m->id, rank, nranks, in_ms(ms), b);
}

static void mixed_body(int rank, int nranks, void *arg)
{
    struct meeting *m = arg;
    int same = m->fills[0] == m->fills[1];
    struct wi_bootstrap_settings s = keyed(m->fills[rank > 0]);
    for (int file = 0; file < 2; file++) {
        struct wi_bootstrap *b;
        if (rank == 0 && !file)
            WT_CHECK_OK(wi_unique_id_create(&s, &m->id));
        wt_sync();
        weft_status st = meet_by(file, m, &s, rank, nranks, same ? 20000 : 700, &b);
        if (same) {
            WT_REQUIRE_OK(st);
            WT_CHECK(memcmp(b->job_key, m->id.bytes + 32, 32) != 0 || !m->fills[0]);
            check_gather(b, PAYLOAD);
            b->destroy(b);
        } else {
            WT_CHECK_STATUS(st, rank ? WEFT_EAUTH : WEFT_ETIMEDOUT);
            says(rank ? "refused the handshake: another job, another job key" : "did not join within");
            says("another job key");
        }
        wt_sync();
    }
}

static void mixed(void)
{
    static const int fills[][2] = {{0, 0}, {7, 7}, {7, 8}, {7, 0}, {0, 7}};
    struct meeting *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(m != MAP_FAILED);
    snprintf(m->path, sizeof(m->path), "%s/meet", wt_temp_dir());
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        memcpy(m->fills, fills[i], sizeof(m->fills));
        CU_ASSERT_EQUAL(wt_run(NRANKS, mixed_body, m, 60000), 0);
    }
    munmap(m, sizeof(*m));
}

/* ---- A launcher's variables, all ranks on one host ---- */

/* Rank 0's time is over first: rank 2 hears what it says. */
static void one_host_body(int rank, int nranks, void *arg)
{
    const int *fills = arg;
    struct wi_bootstrap_settings s = keyed(fills[rank == 1]);
    struct wi_bootstrap *b;
    char spec[512], line[512] = "";
    FILE *log;
    (void)nranks;
    s.store_addr = "127.0.0.1";
    s.job = getenv("WEFT_JOB");
    snprintf(spec, sizeof(spec), "warn,file:%s/%d-%d", wt_temp_dir(), fills[0], rank);
    WT_REQUIRE_OK(wi_log_init(spec));
    WT_CHECK_STATUS(wi_bootstrap_env(&s, in_ms(rank ? 4000 : 1500), &b), rank == 1 ? WEFT_EAUTH : WEFT_ETIMEDOUT);
    says(rank == 1 ? "rank 0 " : "rank 1 ");
    says(rank != 1 ? "came with another job key, with none," : fills[1] ? "another job key" : "this rank was not");
    WT_CHECK_OK(wi_log_init(NULL));
    log = rank == 0 ? fopen(strchr(spec, '/'), "r") : NULL;
    WT_CHECK(rank || (log && fgets(line, sizeof(line), log) && strstr(line, "WARN store.refused: a connection from ")));
}

static void one_host(void)
{
    static const int fills[][2] = {{7, 8}, {7, 0}, {0, 7}};
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++)
        CU_ASSERT_EQUAL(wt_run(NRANKS, one_host_body, (void *)fills[i], 60000), 0);
}

/* Another user's process has the first of the local names, listens there: the ranks say nothing to it and meet at the next. */
#define NOBODY 65534

static pid_t squat(const char *name)
{
    int ready[2];
    char c = 0;
    if (pipe(ready))
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct wi_sockaddr at;
        wi_sockaddr_local(&at, name, 0);
        int fd = setresuid(NOBODY, NOBODY, NOBODY) ? -1 : wi_socket_listen(&at, "test");
        if (fd < 0 || write(ready[1], &c, 1) != 1)
            _exit(1);
        for (;;) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            poll(&p, 1, -1);
            p.fd = wi_socket_accept(fd);
            if (p.fd >= 0 && recv(p.fd, &c, 1, 0) > 0)
                _exit(2);
            wi_fd_close(p.fd);
        }
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1)
        wt_fail(__FILE__, __LINE__, "cannot listen at %s", name);
    close(ready[0]);
    return child;
}

static void squatted_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = keyed(7);
    struct wi_bootstrap *b;
    (void)nranks;
    s.store_addr = "127.0.0.1";
    s.job = arg;
    WT_REQUIRE_OK(wi_bootstrap_env(&s, in_ms(20000), &b));
    WT_CHECK_INT(b->rank, rank);
    check_gather(b, 8);
    b->destroy(b);
}

static void squatted(void)
{
    struct wi_rendezvous r;
    char job[40], seed[64];
    int status;
    if (geteuid() != 0) {
        wt_skip("only root can become another user");
        return;
    }
    snprintf(job, sizeof(job), "squatted-%d", (int)getpid());
    snprintf(seed, sizeof(seed), "%s port 0", job);
    wi_rendezvous_init(&r);
    wi_rendezvous_derive_local(&r, seed);
    pid_t child = squat(r.local);
    CU_ASSERT_EQUAL(wt_run(NRANKS, squatted_body, job, 60000), 0);
    kill(child, SIGKILL);
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFSIGNALED(status)); /* 2: it was told something */
}

/* ---- Where a key is required ---- */

static int never_called(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    (void)arg, (void)mine, (void)bytes, (void)all, (void)timeout_ns;
    wt_fail(__FILE__, __LINE__, "an exchange before the refusal");
    return 1;
}

static int alone(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    (void)arg, (void)timeout_ns;
    memcpy(all, mine, bytes);
    return 0;
}

static void required_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1, .require_key = 1};
    weft_oob oob = {sizeof(oob), rank, 2, never_called, NULL};
    struct wi_bootstrap *b;
    weft_unique_id id;
    (void)arg;
    WT_REQUIRE_OK(wi_unique_id_create(&s, &id));
    WT_CHECK_STATUS(wi_bootstrap_id(&s, &id, rank, 2, in_ms(100), &b), WEFT_ECONFIG);
    says("WEFT_REQUIRE_KEY is set and no job key is configured");
    WT_CHECK_STATUS(wi_bootstrap_file(&s, "/nowhere/file", rank, 2, in_ms(100), &b), WEFT_ECONFIG);
    says("WEFT_JOB_KEY_FILE");
    WT_CHECK_STATUS(wi_bootstrap_oob(&s, &oob, in_ms(100), &b), WEFT_ECONFIG);
    says("no job key is configured");
    setenv("WORLD_SIZE", "2", 1);
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "node1", 1);
    setenv("MASTER_PORT", "29500", 1);
    unsetenv("WEFT_RANK");
    unsetenv("WEFT_NRANKS");
    unsetenv("WEFT_STORE_ADDR");
    unsetenv("WEFT_STORE_PORT");
    WT_CHECK_STATUS(wi_bootstrap_env(&s, in_ms(100), &b), WEFT_ECONFIG);
    says("no job key is configured");

    s.job_key_fd = key_fd(7); /* enough */
    oob = (weft_oob){sizeof(oob), rank, nranks, alone, NULL};
    WT_REQUIRE_OK(wi_bootstrap_oob(&s, &oob, in_ms(20000), &b));
    b->destroy(b);
}

static void required(void)
{
    CU_ASSERT_EQUAL(wt_run(1, required_body, NULL, 20000), 0);
}

static const struct wt_case cases[] = {
    {"out of band: ranks with one key, and without, share fresh keys", agreed},
    {"out of band: another key, or none, is refused on all ranks by name", other_keys},
    {"out of band: another version with the right key", newer},
    {"out of band: each changed byte of each exchange is noticed and its rank named", tampered},
    {"out of band: what was recorded in another job is refused", replayed},
    {"unique ids and files: a configured key is needed as well", mixed},
    {"ranks of one host of which some have another key, or none", one_host},
    {"another user at the local name of ranks with a key", squatted},
    {"a required key that is not configured", required},
};

WT_UNIT_MAIN("bootstrap_keys", cases)
