/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a job's key comes from. */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/bootstrap.h"
#include "net/bootstrap_key.h"
#include "tests/harness/harness.h"

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

static weft_status load(const char *path, int fd, unsigned char *key)
{
    struct wi_bootstrap_settings s = {.job_key_file = path, .job_key_fd = fd};
    struct wi_job_key read;
    weft_status st = wi_job_key_read(&s, WI_JOB_KEY_MAY, wi_deadline_ns(wt_slow_ms(10000) * 1000000ull), &read);
    if (st == WEFT_SUCCESS)
        CU_ASSERT_EQUAL(read.configured, path != NULL || fd >= 0);
    if (st == WEFT_SUCCESS)
        memcpy(key, read.bytes, sizeof(read.bytes));
    return st;
}

static void key_origins(void)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    char path[512], link[600];
    unsigned char key[32], other[32];
    int pipes[2];
    snprintf(path, sizeof(path), "%s/key", wt_temp_dir());
    snprintf(link, sizeof(link), "%s.d", path);
    CU_ASSERT(write_file(path, hex));
    CU_ASSERT_EQUAL(load(path, -1, key), WEFT_SUCCESS);
    CU_ASSERT(key[0] == 0 && key[31] == 31 && key[10] == 10);
    chmod(path, 0640);
    CU_ASSERT_EQUAL(load(path, -1, key), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "640"));
    chmod(path, 0600);
    CU_ASSERT(write_file(path, "short"));
    CU_ASSERT_EQUAL(load(path, -1, key), WEFT_ECONFIG);
    CU_ASSERT(write_file(path, "000102030405060708090a0b0c0d0e0f")); /* half of a key */
    CU_ASSERT_EQUAL(load(path, -1, key), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "holds 32 characters of text"));
    CU_ASSERT(write_file(path, "0001020304050607\x80_9012345678901\n")); /* 32 bytes that are none */
    CU_ASSERT_EQUAL(load(path, -1, key), WEFT_SUCCESS);
    mkdir(link, 0700);
    CU_ASSERT_EQUAL(load(link, -1, key), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(load("/nonexistent/key", -1, key), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(load(NULL, 9999, key), WEFT_ECONFIG);

    CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
    CU_ASSERT_EQUAL(write(pipes[1], hex, strlen(hex)), (ssize_t)strlen(hex));
    close(pipes[1]);
    for (int i = 0; i < 3; i++) { /* again and again from the same descriptor */
        memset(key, 0xff, sizeof(key));
        CU_ASSERT_EQUAL(load(NULL, pipes[0], key), WEFT_SUCCESS);
        CU_ASSERT(key[0] == 0 && key[31] == 31);
    }
    CU_ASSERT_EQUAL(fcntl(pipes[0], F_GETFD), FD_CLOEXEC);
    close(pipes[0]);
    CU_ASSERT_EQUAL(load(NULL, -1, key), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_job_key_derive("job", key), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_job_key_derive("job", other), WEFT_SUCCESS);
    CU_ASSERT(!memcmp(key, other, sizeof(key)));
    CU_ASSERT_EQUAL(wi_job_key_derive("another", other), WEFT_SUCCESS);
    CU_ASSERT(memcmp(key, other, sizeof(key)) != 0);
}

/* ---- A pipe that several threads read at once ---- */

#define READERS 4

struct reader {
    pthread_t thread;
    int fd;
    weft_status status;
    unsigned char key[32];
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    r->status = load(NULL, r->fd, r->key);
    return NULL;
}

/* One byte, and when a reader has taken it the next, so that readers that do not keep out of each other's way each get some. */
static void write_slowly(int fd, const char *text)
{
    uint64_t until = wi_deadline_ns(wt_slow_ms(10000) * 1000000ull);
    for (const char *at = text; *at; at++) {
        int left = 1;
        CU_ASSERT_EQUAL(write(fd, at, 1), 1);
        while (!ioctl(fd, FIONREAD, &left) && left && wi_now_ns() < until)
            sched_yield();
        CU_ASSERT_EQUAL(left, 0);
    }
}

static void pipe_of_threads(void)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct reader readers[READERS];
    int pipes[2];
    CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fd = pipes[0]};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]), 0);
    }
    write_slowly(pipes[1], hex);
    close(pipes[1]);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        CU_ASSERT_EQUAL(readers[i].status, WEFT_SUCCESS);
        CU_ASSERT(readers[i].key[0] == 0 && readers[i].key[31] == 31);
    }
    close(pipes[0]);
}

/* A writer that never closes: the start fails at its deadline, and says why. */
static void pipe_without_end(void)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct wi_job_key key;
    int pipes[2];
    CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
    struct wi_bootstrap_settings s = {.job_key_fd = pipes[0]};
    CU_ASSERT_EQUAL(write(pipes[1], hex, strlen(hex)), (ssize_t)strlen(hex));
    alarm(60);
    CU_ASSERT_EQUAL(wi_job_key_read(&s, WI_JOB_KEY_MAY, wi_deadline_ns(50000000), &key), WEFT_ETIMEDOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "given 64 bytes and is still open"));
    alarm(0);
    close(pipes[0]);
    close(pipes[1]);
}

static weft_status load_environment(const char *text, unsigned char *key)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1, .job_key = "set"};
    struct wi_job_key read;
    text ? setenv("WEFT_JOB_KEY", text, 1) : unsetenv("WEFT_JOB_KEY");
    weft_status st = wi_job_key_read(&s, WI_JOB_KEY_MAY, wi_deadline_ns(wt_slow_ms(10000) * 1000000ull), &read);
    if (st == WEFT_SUCCESS)
        memcpy(key, read.bytes, sizeof(read.bytes));
    return st;
}

static void key_environment(void)
{
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    static const char *const bad[] = {"", "00", "32 characters are not a raw key!", "0001020304050607zz"};
    unsigned char key[32];
    CU_ASSERT_EQUAL(load_environment(hex, key), WEFT_SUCCESS);
    CU_ASSERT(key[0] == 0 && key[31] == 31);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CU_ASSERT_EQUAL(load_environment(bad[i], key), WEFT_ECONFIG);
        CU_ASSERT(!*bad[i] || !strstr(wi_fail_text(), bad[i]));
    }
    CU_ASSERT_EQUAL(load_environment(NULL, key), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "is not any more"));
}

static void contradiction(void)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1, .require_key = 1, .insecure = 1};
    weft_oob oob = {.bytes = sizeof(oob), .rank = 0, .nranks = 1};
    weft_unique_id id;
    struct wi_bootstrap *b;
    struct wi_job_key key;
    char path[600];
    snprintf(path, sizeof(path), "%s/meet", wt_temp_dir());
    for (int need = WI_JOB_KEY_MAY; need <= WI_JOB_KEY_MUST; need++)
        CU_ASSERT_EQUAL(wi_job_key_read(&s, need, UINT64_MAX, &key), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_unique_id_create(&s, &id), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_bootstrap_file(&s, path, 0, 1, UINT64_MAX, &b), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_INSECURE"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_REQUIRE_KEY"));
    oob.all_gather =
        (int (*)(void *, const void *, size_t, void *, uint64_t))abort; /* refused before anything is said */
    CU_ASSERT_EQUAL(wi_bootstrap_oob(&s, &oob, UINT64_MAX, &b), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_bootstrap_env(&s, UINT64_MAX, &b), WEFT_ECONFIG);
}

/* The registry of settings never holds the key. */
static void note(void *arg, const char *name, const char *value, const char *fallback, const char *origin,
                 const char *help)
{
    char *seen = arg;
    (void)fallback, (void)origin, (void)help;
    if (!strcmp(name, "WEFT_JOB_KEY"))
        snprintf(seen, 100, "%s", value ? value : "(null)");
}

static void key_setting(void)
{
    static const char *const call[] = {"JOB_KEY=0001", NULL};
    struct wi_bootstrap_settings s;
    struct wi_settings *settings;
    char seen[100] = "";
    setenv("WEFT_JOB_KEY", "secret", 1);
    CU_ASSERT_EQUAL_FATAL(wi_settings_create(NULL, NULL, &settings), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_settings_read(settings, "", wi_bootstrap_setting_rows, &s), WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(s.job_key, "set");
    wi_settings_visit(settings, note, seen);
    CU_ASSERT_STRING_EQUAL(seen, "set");
    wi_settings_destroy(settings);
    CU_ASSERT_EQUAL(wi_settings_create(NULL, call, &settings), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "JOB_KEY_FILE"));
    CU_ASSERT_PTR_NULL(strstr(wi_fail_text(), "0001"));
    unsetenv("WEFT_JOB_KEY");
}

static void random_key_body(int rank, int nranks, void *arg)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1,
                                      .store_addr = getenv("WEFT_STORE_ADDR"),
                                      .store_port = atoi(getenv("WEFT_STORE_PORT")),
                                      .job = getenv("WEFT_JOB")};
    uint64_t deadline = wi_deadline_ns(wt_slow_ms(20000) * 1000000ull);
    struct wi_bootstrap *b;
    unsigned char keys[3][WI_JOB_KEY_BYTES], derived[WI_JOB_KEY_BYTES];
    (void)rank, (void)nranks, (void)arg;
    WT_REQUIRE_OK(wi_bootstrap_env(&s, deadline, &b));
    WT_CHECK(b->has_secret);
    WT_CHECK_OK(b->all_gather(b, b->job_key, sizeof(b->job_key), keys, deadline));
    WT_CHECK(!memcmp(keys[0], keys[1], sizeof(keys[0])) && !memcmp(keys[0], keys[2], sizeof(keys[0])));
    WT_CHECK_OK(wi_job_key_derive(b->job, derived));
    WT_CHECK(memcmp(keys[0], derived, sizeof(derived)) != 0);
    b->destroy(b);
}

static void random_key(void)
{
    CU_ASSERT_EQUAL(wt_run(3, random_key_body, NULL, 40000), 0);
}

static const struct wt_case cases[] = {
    {"descriptors and files", key_origins},
    {"a pipe that several threads read", pipe_of_threads},
    {"a pipe that nobody closes", pipe_without_end},
    {"the environment", key_environment},
    {"required, and done without", contradiction},
    {"settings do not show it", key_setting},
    {"one host without a key gets a random one", random_key},
};

WT_UNIT_MAIN("job_key", cases)
