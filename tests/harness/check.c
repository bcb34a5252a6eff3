/* Checks, reports, temporary directories and ports.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/harness/harness.h"
#include "tests/harness/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

_Thread_local struct wt_self wt_self = {.rank = -1};
_Atomic int wt_process_failures;
int wt_process_rank = -1;
static char report_path[512];

void wt_report_to(const char *path)
{
    snprintf(report_path, sizeof report_path, "%s", path ? path : "");
}

FILE *wt_report_open(void)
{
    FILE *out = report_path[0] ? fopen(report_path, "a") : NULL;
    return out ? out : stderr;
}

void wt_report_close(FILE *out)
{
    fflush(out);
    if (out != stderr)
        fclose(out);
}

int wt_failures(void)
{
    return wt_is_thread() ? wt_self.failures : wt_process_failures;
}

/* Ranks of a process print to their own captured stderr; thread ranks share the report. */
void wt_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    int rank = wt_is_thread() ? wt_self.rank : wt_process_rank;
    if (wt_is_thread())
        wt_self.failures++;
    else
        wt_process_failures++;
    FILE *out = wt_is_thread() || wt_process_rank < 0 ? wt_report_open() : stderr;
    if (rank >= 0)
        fprintf(out, "%s:%d: rank %d: check failed: %s\n", file, line, rank, text);
    else
        fprintf(out, "%s:%d: check failed: %s\n", file, line, text);
    if (out != stderr)
        wt_report_close(out);
}

void wt_check_mem(const char *file, int line, const char *what, const void *actual, const void *expected, size_t bytes)
{
    const unsigned char *a = actual, *e = expected;
    size_t first = bytes, different = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] == e[i])
            continue;
        if (!different++)
            first = i;
    }
    if (different)
        wt_fail(file, line, "%s: %zu of %zu bytes differ, the first at %zu: 0x%02x, not 0x%02x", what, different, bytes,
                first, a[first], e[first]);
}

_Noreturn void wt_rank_end(void)
{
    if (wt_self.rank < 0) {
        fprintf(stderr, "a required check failed outside of the thread that plays a rank\n");
        exit(1);
    }
    longjmp(wt_self.end, 1);
}

void wt_sync(void)
{
    if (wt_self.shared)
        pthread_barrier_wait(&wt_self.shared->barrier);
}

unsigned wt_slow_ms(unsigned ms)
{
    const char *text = getenv("WEFT_TEST_SLOW");
    long factor = text ? strtol(text, NULL, 10) : 1;
    if (factor < 1 || factor > 1000)
        factor = 1;
    return ms * (unsigned)factor;
}

uint64_t wt_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

int wt_free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t addr_bytes = sizeof addr;
    int port = -1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0 &&
        getsockname(fd, (struct sockaddr *)&addr, &addr_bytes) == 0)
        port = ntohs(addr.sin_port);
    close(fd);
    return port;
}

/* ---- Temporary directories: a list, removed at exit by the process that made them ---- */

struct temp_dir {
    struct temp_dir *next;
    pid_t owner;
    char path[];
};
static struct temp_dir *temp_dirs;
static pthread_mutex_t temp_lock = PTHREAD_MUTEX_INITIALIZER;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_temp_dirs(void)
{
    while (temp_dirs) {
        struct temp_dir *dir = temp_dirs;
        temp_dirs = dir->next;
        if (dir->owner == getpid())
            nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(dir);
    }
}

const char *wt_temp_dir(void)
{
    static int registered;
    const char *base = getenv("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    size_t bytes = strlen(base) + sizeof "/weft-test-XXXXXX";
    struct temp_dir *dir = malloc(sizeof *dir + bytes);
    if (!dir) {
        fprintf(stderr, "no memory for a temporary directory\n");
        exit(99);
    }
    snprintf(dir->path, bytes, "%s/weft-test-XXXXXX", base);
    if (!mkdtemp(dir->path)) {
        fprintf(stderr, "cannot make %s: %s\n", dir->path, strerror(errno));
        exit(99);
    }
    dir->owner = getpid();
    pthread_mutex_lock(&temp_lock);
    dir->next = temp_dirs;
    temp_dirs = dir;
    if (!registered)
        registered = atexit(remove_temp_dirs) == 0;
    pthread_mutex_unlock(&temp_lock);
    return dir->path;
}

const char *wt_plugin_dir(const char *module)
{
    const char *build = getenv("WEFT_BUILDDIR"), *dir = wt_temp_dir();
    char path[1024], bytes[65536];
    ssize_t n = -1;

    snprintf(path, sizeof path, "%s/.libs/%s.so", build ? build : ".", module);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s.so", dir, module);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    while (from >= 0 && to >= 0 && (n = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)n) != n)
            break;
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return n == 0 ? dir : NULL;
}
