/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: one line, one write(2). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dup3 */
#endif
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"

#define LOG_LINE_BYTES 2048
#define LOG_PATH_BYTES 4096

int wi_log_level;

static atomic_int log_fd = STDERR_FILENO;
static atomic_int log_rank = -1;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* guards log_file_fd and log_path */
static int log_file_fd = -1; /* kept when the log goes back to stderr: a writer may be using it */
static char log_path[LOG_PATH_BYTES];
static pthread_once_t log_host_once = PTHREAD_ONCE_INIT;
static char log_host[64];

static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};
static const char *const level_labels[] = {"", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
#define LOG_NUM_LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

static void log_host_read(void)
{
    if (gethostname(log_host, sizeof(log_host)))
        strcpy(log_host, "?");
    log_host[sizeof(log_host) - 1] = '\0';
}

static weft_status log_level_parse(const char *text, size_t length, int *level)
{
    for (int i = 0; i < LOG_NUM_LEVELS; i++) {
        if (strlen(level_names[i]) == length && memcmp(level_names[i], text, length) == 0) {
            *level = i;
            return WEFT_SUCCESS;
        }
    }
    return wi_fail(WEFT_ECONFIG,
                   "WEFT_LOG: unknown level \"%.*s\"; expected off, error, warn, info, debug or trace, "
                   "then optionally ,file:PATH",
                   (int)(length > 64 ? 64 : length), text);
}

/* dup2 swaps the file under writers that have already read the descriptor. */
static weft_status log_file_open(const char *path)
{
    int fd;

    if (log_file_fd >= 0 && strcmp(path, log_path) == 0) {
        atomic_store_explicit(&log_fd, log_file_fd, memory_order_relaxed);
        return WEFT_SUCCESS;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd < 0)
        return wi_fail_errno(errno, "WEFT_LOG: cannot open \"%s\"", path);
    if (log_file_fd >= 0) {
        int err = dup3(fd, log_file_fd, O_CLOEXEC) < 0 ? errno : 0;

        close(fd);
        if (err)
            return wi_fail_errno(err, "WEFT_LOG: cannot switch to \"%s\"", path);
    } else {
        log_file_fd = fd;
    }
    strcpy(log_path, path);
    atomic_store_explicit(&log_fd, log_file_fd, memory_order_relaxed);
    return WEFT_SUCCESS;
}

weft_status wi_log_init(const char *spec)
{
    const char *comma, *path = NULL;
    weft_status status = WEFT_SUCCESS;
    int level = 0;

    if (!spec || !*spec)
        spec = "off";
    comma = strchr(spec, ',');
    WI_TRY(log_level_parse(spec, comma ? (size_t)(comma - spec) : strlen(spec), &level));
    if (comma) {
        if (strncmp(comma + 1, "file:", 5) != 0 || comma[6] == '\0')
            return wi_fail(WEFT_ECONFIG, "WEFT_LOG: \"%.64s\" after the level; expected file:PATH", comma + 1);
        path = comma + 6;
        if (strlen(path) >= LOG_PATH_BYTES)
            return wi_fail(WEFT_ECONFIG, "WEFT_LOG: path longer than %d bytes", LOG_PATH_BYTES - 1);
    }
    pthread_once(&log_host_once, log_host_read);
    pthread_mutex_lock(&log_lock);
    if (path)
        status = log_file_open(path);
    else
        atomic_store_explicit(&log_fd, STDERR_FILENO, memory_order_relaxed);
    pthread_mutex_unlock(&log_lock);
    if (status == WEFT_SUCCESS)
        __atomic_store_n(&wi_log_level, level, __ATOMIC_RELAXED);
    return status;
}

void wi_log_set_rank(int rank)
{
    atomic_store_explicit(&log_rank, rank, memory_order_relaxed);
}

static size_t log_prefix(char *line, size_t capacity, int level, const char *event)
{
    int rank = atomic_load_explicit(&log_rank, memory_order_relaxed);
    char stamp[32], who[16] = "?";
    struct timeval now;
    struct tm tm;
    int length;

    gettimeofday(&now, NULL);
    gmtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    if (rank >= 0)
        snprintf(who, sizeof(who), "%d", rank);
    length = snprintf(line, capacity, "weft %s.%06ldZ %s:%ld r%s %s %s: ", stamp, (long)now.tv_usec, log_host,
                      (long)getpid(), who, level_labels[level], event);
    return length < 0 ? 0 : (size_t)length < capacity ? (size_t)length : capacity - 1;
}

void wi_log_vwrite(enum weft_log_level level, const char *event, const char *format, va_list ap)
{
    char line[LOG_LINE_BYTES];
    int saved = errno, index = (int)level, written;
    size_t length, room;
    ssize_t lost;

    if (index < 1 || index >= LOG_NUM_LEVELS || index > __atomic_load_n(&wi_log_level, __ATOMIC_RELAXED))
        return;
    pthread_once(&log_host_once, log_host_read);
    length = log_prefix(line, sizeof(line) - 1, index, event);
    room = sizeof(line) - 1 - length;
    written = vsnprintf(line + length, room, format, ap);
    if (written > 0)
        length += (size_t)written < room ? (size_t)written : room - 1;
    if (written > 0 && (size_t)written >= room)
        memcpy(line + length - 3, "...", 3);
    wi_text_sanitize(line, sizeof(line)); /* it may quote a peer */
    line[length++] = '\n';
    /* A log that cannot be written must not fail the operation it tells about. */
    lost = write(atomic_load_explicit(&log_fd, memory_order_relaxed), line, length);
    (void)lost;
    errno = saved;
}

void wi_log_write(enum weft_log_level level, const char *event, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    wi_log_vwrite(level, event, format, ap);
    va_end(ap);
}
