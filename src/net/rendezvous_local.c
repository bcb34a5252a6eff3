/* SPDX-License-Identifier: BSD-3-Clause */
/* Local sockets for the store of a job on one host. Abstract names come first: they need no directory and leave nothing
 * behind, but any user may take a name before rank 0 does. Hence directories of this user, in which no other user can. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/hash.h"
#include "base/process.h"
#include "net/rendezvous.h"

void wi_rendezvous_derive_local(struct wi_rendezvous *r, const char *text)
{
    snprintf(r->local, sizeof(r->local), "weft-%u-%016llx", (unsigned)geteuid(),
             (unsigned long long)wi_hash64(text, strlen(text), 0));
}

void wi_sockaddr_local(struct wi_sockaddr *address, const char *name, int number)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int bytes = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s-%d", name, number);
    memset(address, 0, sizeof(*address));
    memcpy(&address->ss, &un, sizeof(un));
    address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
}

/* The directories, in order. `own`: weft makes it. 0 or -1. */
static int dir_path(int index, char *path, size_t capacity, int *own)
{
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    unsigned uid = (unsigned)geteuid();
    int bytes = -1;
    *own = index >= 2;
    if (index == 0 && run && *run == '/')
        bytes = snprintf(path, capacity, "%s", run);
    else if (index == 1)
        bytes = snprintf(path, capacity, "/run/user/%u", uid);
    else if (index == 2)
        bytes = snprintf(path, capacity, "/tmp/weft-%u", uid);
    else if (index == 3)
        bytes = snprintf(path, capacity, "/dev/shm/weft-%u", uid);
    return bytes > 0 && (size_t)bytes < capacity ? 0 : -1;
}

/* A directory of this user that no other user can write to or read; not the target of a link. */
static int dir_is_private(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int private = !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077);
    close(fd);
    return private;
}

/* The same in all processes that share the network's namespace, as abstract names are. */
static int file_name(const struct wi_rendezvous *r, const char *dir, struct sockaddr_un *un)
{
    int bytes = snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s.%llx", dir, r->local,
                         (unsigned long long)wi_process_namespace("net"));
    return bytes > 0 && (size_t)bytes < sizeof(un->sun_path) ? 0 : -1;
}

int wi_rendezvous_files(const struct wi_rendezvous *r, int create, struct wi_sockaddr *at)
{
    int n = 0;
    for (int i = 0; i < WI_RENDEZVOUS_DIRS; i++) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        char dir[sizeof(un.sun_path)];
        int own;
        if (dir_path(i, dir, sizeof(dir), &own))
            continue;
        if (create && own)
            mkdir(dir, 0700); /* whether it is there and ours is looked at next */
        if (!dir_is_private(dir) || file_name(r, dir, &un))
            continue;
        memset(&at[n], 0, sizeof(at[n]));
        memcpy(&at[n].ss, &un, sizeof(un));
        at[n++].bytes = sizeof(un);
    }
    return n;
}

static const char *file_of(const struct wi_sockaddr *at)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&at->ss;
    return un->sun_family == AF_UNIX && un->sun_path[0] == '/' ? un->sun_path : NULL;
}

/* A killed rank 0 leaves its file behind, on which no process listens. */
static int file_is_stale(const struct wi_sockaddr *at)
{
    int pending, fd = wi_socket_connect(at, &pending);
    if (fd >= 0)
        wi_fd_close(fd);
    return fd < 0 && errno == ECONNREFUSED;
}

int wi_rendezvous_listen_file(const struct wi_sockaddr *at)
{
    const char *path = file_of(at);
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int fd = wi_socket_listen(at, "start-up store");
    if (fd >= 0 || errno != EADDRINUSE || !path)
        return fd;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && !flock(lock, LOCK_EX | LOCK_NB) && file_is_stale(at)) {
        unlink(path);
        fd = wi_socket_listen(at, "start-up store");
    }
    int err = fd < 0 ? EADDRINUSE : 0;
    if (lock >= 0)
        close(lock);
    errno = err;
    return fd;
}

void wi_rendezvous_close(int listen_fd)
{
    struct wi_sockaddr at = {.bytes = sizeof(at.ss)};
    const char *path;
    /* A listener that a launcher made keeps its file. */
    if (!getsockname(listen_fd, (struct sockaddr *)&at.ss, &at.bytes) && (path = file_of(&at)) != NULL &&
        !strncmp(strrchr(path, '/'), "/weft-", 6))
        unlink(path);
    wi_socket_listen_no_more(listen_fd); /* a launcher or this process may hold another descriptor of it */
    wi_fd_close(listen_fd);
}
