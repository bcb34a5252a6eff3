/* SPDX-License-Identifier: BSD-3-Clause */
/* Job keys: 32 raw bytes or 64 hexadecimal digits, never in arguments, never logged. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "net/auth.h"
#include "net/bootstrap_key.h"
#include "net/rendezvous.h"

#define KEY_TEXT_MAX 80

static int is_text(const char *bytes, size_t n) /* ASCII, whatever the locale */
{
    for (size_t i = 0; i < n; i++)
        if ((bytes[i] < ' ' || bytes[i] > '~') && (bytes[i] < '\t' || bytes[i] > '\r'))
            return 0;
    return 1;
}

/* 32 bytes that can be read are no key but half of one in digits, or a password. Of random ones that happens in 1 of 10^13. */
static int key_parse(const char *text, size_t bytes, unsigned char *key)
{
    if (bytes == WI_JOB_KEY_BYTES && !is_text(text, bytes)) {
        memcpy(key, text, WI_JOB_KEY_BYTES);
        return 0;
    }
    while (bytes && isspace((unsigned char)text[bytes - 1]))
        bytes--;
    return bytes == 2 * WI_JOB_KEY_BYTES ? wi_hex_decode(text, WI_JOB_KEY_BYTES, key) : -1;
}

static weft_status key_read(int fd, const char *origin, unsigned char *key)
{
    char text[KEY_TEXT_MAX];
    ssize_t bytes = pread(fd, text, sizeof(text), 0);
    if (bytes < 0)
        return wi_fail(WEFT_ECONFIG, "%s: %s", origin, strerror(errno));
    int bad = key_parse(text, (size_t)bytes, key), readable = is_text(text, (size_t)bytes);
    explicit_bzero(text, sizeof(text));
    if (bad && bytes == WI_JOB_KEY_BYTES && readable)
        return wi_fail(WEFT_ECONFIG,
                       "%s holds 32 characters of text; a job key is 32 random bytes or 64 hexadecimal digits "
                       "(weft-run --make-key writes one)",
                       origin);
    if (bad)
        return wi_fail(WEFT_ECONFIG, "%s holds %zd bytes; a job key is 32 bytes or 64 hexadecimal digits", origin,
                       bytes);
    return WEFT_SUCCESS;
}

/* A pipe can be read once only: what it held goes into an anonymous file under the same number, so that the next
 * communicator of this process finds it too. One thread reads it; the others find the file. A fork while one reads leaves the lock
 * held in the child, whose wait ends at its deadline. */
static pthread_mutex_t pipe_lock = PTHREAD_MUTEX_INITIALIZER;

/* Until the writer closes it. Opened anew, since reading must not block and the flag for that would be shared with others. */
static weft_status pipe_read(int pipe_fd, const char *origin, char text[KEY_TEXT_MAX], size_t *held,
                             uint64_t deadline_ns)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe_fd);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return wi_fail(WEFT_ECONFIG, "%s: %s", origin, strerror(errno));
    weft_status st = WEFT_SUCCESS;
    ssize_t n = 1;
    for (*held = 0; *held < KEY_TEXT_MAX && n != 0 && st == WEFT_SUCCESS; *held += n > 0 ? (size_t)n : 0) {
        n = read(fd, text + *held, KEY_TEXT_MAX - *held);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            st = wi_fail(WEFT_ECONFIG, "%s: %s", origin, strerror(errno));
        else if (n < 0 && !wi_socket_poll(fd, POLLIN, deadline_ns))
            st = wi_fail(WEFT_ETIMEDOUT,
                         "%s: the pipe has given %zu bytes and is still open; whoever writes the key must close it",
                         origin, *held);
    }
    close(fd);
    return st;
}

static weft_status key_pipe_to_file(int fd, const char *origin, uint64_t deadline_ns)
{
    char text[KEY_TEXT_MAX];
    size_t held = 0;
    weft_status st = pipe_read(fd, origin, text, &held, deadline_ns);
    if (st == WEFT_SUCCESS) {
        int file = memfd_create("weft-job-key", MFD_CLOEXEC);
        if (file < 0 || write(file, text, held) != (ssize_t)held || dup3(file, fd, O_CLOEXEC) < 0)
            st = wi_fail_errno(errno, "keep the job key of %s", origin);
        if (file >= 0)
            close(file);
    }
    explicit_bzero(text, sizeof(text));
    return st;
}

static weft_status key_from_open_fd(int fd, const char *origin, uint64_t deadline_ns, unsigned char *key)
{
    struct stat st;
    if (fstat(fd, &st))
        return wi_fail(WEFT_ECONFIG, "%s is not an open descriptor", origin);
    if (S_ISFIFO(st.st_mode))
        WI_TRY(key_pipe_to_file(fd, origin, deadline_ns));
    WI_TRY(key_read(fd, origin, key));
    /* It stays open for further communicators, but what this process starts has no business with it. */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return WEFT_SUCCESS;
}

static weft_status key_from_fd(int64_t fd, uint64_t deadline_ns, unsigned char *key)
{
    char origin[48];
    snprintf(origin, sizeof(origin), "WEFT_JOB_KEY_FD=%lld", (long long)fd);
    if (fd > 1 << 20)
        return wi_fail(WEFT_ECONFIG, "%s is not an open descriptor", origin);
    WI_TRY(wi_start_lock(&pipe_lock, origin, deadline_ns));
    weft_status st = key_from_open_fd((int)fd, origin, deadline_ns, key);
    pthread_mutex_unlock(&pipe_lock);
    return st;
}

static weft_status key_from_file(const char *path, unsigned char *key)
{
    char origin[128];
    int fd;
    snprintf(origin, sizeof(origin), "WEFT_JOB_KEY_FILE='%.90s'", path);
    WI_TRY(wi_file_open_private(path, "WEFT_JOB_KEY_FILE", &fd));
    weft_status st = key_read(fd, origin, key);
    close(fd);
    return st;
}

/* Read where it stands: the registry of settings only knows that it is set, so that nothing shows it and no copy of it stays
 * in memory. The variable itself stays, for the processes that a rank starts and because unsetenv(3) is not safe while
 * other threads run. */
static weft_status key_from_environment(unsigned char *key)
{
    const char *text = getenv("WEFT_JOB_KEY");
    size_t bytes = text ? strlen(text) : 0;
    if (!bytes)
        return wi_fail(WEFT_ECONFIG, "WEFT_JOB_KEY was set when the context was created and is not any more");
    if (bytes == WI_JOB_KEY_BYTES || key_parse(text, bytes, key))
        return wi_fail(WEFT_ECONFIG, "WEFT_JOB_KEY holds %zu characters; a job key is 64 hexadecimal digits", bytes);
    return WEFT_SUCCESS;
}

weft_status wi_job_key_read(const struct wi_bootstrap_settings *s, enum wi_job_key_need need, uint64_t deadline_ns,
                            struct wi_job_key *key)
{
    memset(key, 0, sizeof(*key));
    if (s->require_key && s->insecure)
        return wi_fail(WEFT_ECONFIG,
                       "WEFT_REQUIRE_KEY and WEFT_INSECURE are both set: one asks for a job key, the other does "
                       "without; set only one of them");
    key->configured = 1;
    if (s->job_key_fd >= 0)
        return key_from_fd(s->job_key_fd, deadline_ns, key->bytes);
    if (s->job_key_file && *s->job_key_file)
        return key_from_file(s->job_key_file, key->bytes);
    if (s->job_key && *s->job_key)
        return key_from_environment(key->bytes);
    key->configured = 0;
    if (need == WI_JOB_KEY_MAY || !s->require_key)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ECONFIG,
                   "WEFT_REQUIRE_KEY is set and no job key is configured: make one with weft-run --make-key "
                   "weft.key and set WEFT_JOB_KEY_FILE=weft.key for all ranks");
}

weft_key_state wi_job_key_state(const struct wi_bootstrap_settings *s)
{
    int fd = s->job_key_fd >= 0 && s->job_key_fd <= 1 << 20 ? (int)s->job_key_fd : -1;
    int flags = fd >= 0 ? fcntl(fd, F_GETFD) : -1;
    struct wi_job_key key;
    struct stat st;
    if (!(s->require_key && s->insecure) && fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
        return WEFT_KEY_UNREAD;
    weft_status status = wi_job_key_read(s, WI_JOB_KEY_MUST, wi_deadline_ns(1000000000), &key);
    if (flags >= 0) /* what the program starts may still have it, until it starts itself */
        fcntl(fd, F_SETFD, flags);
    int configured = key.configured;
    explicit_bzero(&key, sizeof(key));
    if (status != WEFT_SUCCESS)
        return WEFT_KEY_REFUSED;
    return configured ? WEFT_KEY_CONFIGURED : s->insecure ? WEFT_KEY_INSECURE : WEFT_KEY_NONE;
}

weft_status wi_job_key_mix(const struct wi_job_key *configured, unsigned char secret[WI_JOB_KEY_BYTES])
{
    unsigned char both[2 * WI_JOB_KEY_BYTES];
    struct wi_auth_key mixed;
    if (!configured->configured)
        return WEFT_SUCCESS;
    memcpy(both, configured->bytes, WI_JOB_KEY_BYTES);
    memcpy(both + WI_JOB_KEY_BYTES, secret, WI_JOB_KEY_BYTES);
    weft_status st = wi_auth_derive(both, sizeof(both), "weft job key", "configured and exchanged", &mixed);
    if (st == WEFT_SUCCESS)
        memcpy(secret, mixed.key, WI_JOB_KEY_BYTES);
    explicit_bzero(&mixed, sizeof(mixed));
    explicit_bzero(both, sizeof(both));
    return st;
}

weft_status wi_job_key_derive(const char *job, unsigned char key[WI_JOB_KEY_BYTES])
{
    struct wi_auth_key derived;
    char user[32];
    snprintf(user, sizeof(user), "uid %u", (unsigned)getuid());
    WI_TRY(wi_auth_derive((const unsigned char *)user, strlen(user), job, "weft job without secret", &derived));
    memcpy(key, derived.key, WI_JOB_KEY_BYTES);
    return WEFT_SUCCESS;
}
