/* SPDX-License-Identifier: BSD-3-Clause */
/* Start up from the launcher's environment, twice, all-gather and check; prints one line per rank.
 * usage: bootstrap_probe [timeout seconds, default 20] */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/bootstrap.h"

static int complain(int rank, const char *what, weft_status status)
{
    fprintf(stderr, "bootstrap_probe: rank %d: %s: %s: %s\n", rank, what, weft_status_name(status), wi_fail_text());
    return 1;
}

static int exchange(struct wi_bootstrap *b, uint64_t round, uint64_t deadline)
{
    uint64_t mine = round * 1000003u + (uint64_t)b->rank;
    uint64_t *all = calloc((size_t)b->nranks, sizeof(*all));
    if (!all)
        return 1;
    weft_status st = b->all_gather(b, &mine, sizeof(mine), all, deadline);
    int bad = st < 0 ? complain(b->rank, "all-gather", st) : 0;
    for (int i = 0; !bad && i < b->nranks; i++)
        bad = all[i] != round * 1000003u + (uint64_t)i;
    free(all);
    return bad;
}

#define FDS 256
static int listened[FDS]; /* when this process began: a launcher's, that it forgot to close */

static int is_listener(int fd)
{
    int listening = 0;
    socklen_t bytes = sizeof(listening);
    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) && listening;
}

/* A local socket that keeps its name lets one connection wait, unanswered, for the next communicator. */
static int refuses(const struct sockaddr_storage *at, socklen_t at_bytes)
{
    int fds[2], refused = 0, most = at->ss_family == AF_UNIX ? 2 : 1;
    for (int i = 0; i < most; i++) {
        fds[i] = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        refused |= connect(fds[i], (const struct sockaddr *)at, at_bytes) && (errno == ECONNREFUSED || errno == EAGAIN);
    }
    for (int i = 0; i < most; i++)
        close(fds[i]);
    return refused;
}

/* Sockets of this process to which another process could connect, now that all ranks have joined. */
static int listens(int rank)
{
    int bad = 0;
    for (int fd = 3; fd < FDS; fd++) {
        struct sockaddr_storage at;
        socklen_t at_bytes = sizeof(at);
        if (listened[fd] || !is_listener(fd) || getsockname(fd, (struct sockaddr *)&at, &at_bytes))
            continue;
        if (refuses(&at, at_bytes))
            continue;
        printf("probe: rank %d still listens at descriptor %d (family %d)\n", rank, fd, at.ss_family);
        bad = 1;
    }
    return bad;
}

static int once(const struct wi_bootstrap_settings *s, uint64_t deadline, int round)
{
    struct wi_bootstrap *b;
    uint64_t begin = wi_now_ns();
    weft_status st = wi_bootstrap_env(s, deadline, &b);
    if (st < 0)
        return complain(-1, "start-up", st);
    int bad = exchange(b, 1, deadline) || exchange(b, 2, deadline) || listens(b->rank);
    printf("probe: rank %d of %d local %d/%d job %s secret %d round %d %s %.1f ms\n", b->rank, b->nranks, b->local_rank,
           b->local_nranks, b->job, b->has_secret, round, bad ? "WRONG" : "ok", (double)(wi_now_ns() - begin) / 1e6);
    fflush(stdout);
    b->destroy(b);
    return bad;
}

int main(int argc, char **argv)
{
    struct wi_bootstrap_settings s = {.job_key_fd = -1};
    struct wi_settings *settings;
    const char *store_fd = getenv("WEFT_STORE_FD");
    uint64_t timeout_ns = 20000000000ull;
    if (argc > 1 && wi_parse_time(argv[1], &timeout_ns)) {
        fprintf(stderr, "bootstrap_probe: '%s' is not a time\n", argv[1]);
        return 2;
    }
    wi_log_init(getenv("WEFT_LOG"));
    for (int fd = 0; fd < FDS; fd++)
        listened[fd] = is_listener(fd) && (!store_fd || fd != atoi(store_fd));
    weft_status st = wi_settings_create(NULL, NULL, &settings);
    if (st == WEFT_SUCCESS)
        st = wi_settings_read(settings, "", wi_bootstrap_setting_rows, &s);
    if (st < 0)
        return complain(-1, "settings", st);
    uint64_t deadline = wi_deadline_ns(timeout_ns);
    int bad = once(&s, deadline, 1) || once(&s, deadline, 2);
    wi_settings_destroy(settings);
    return bad;
}
