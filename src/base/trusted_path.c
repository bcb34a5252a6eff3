/* SPDX-License-Identifier: BSD-3-Clause */
/* See trusted_path.h. */
#include "base/trusted_path.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define LINKS_MAX 40 /* as the kernel's */

int wi_users_are_mapped(void)
{
    char text[64] = "";
    unsigned long inside, outside, count;
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    ssize_t bytes = read(fd, text, sizeof(text) - 1);
    close(fd);
    return bytes > 0 && sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
           count == 4294967295ul;
}

/* The user who installed this library may install plugins too. 0 or -1. */
static int library_owner(uid_t *owner)
{
    static const char here;
    struct link_map *map = NULL;
    struct stat st;
    Dl_info info;

    if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return -1;
    const char *path = *map->l_name ? map->l_name : "/proc/self/exe"; /* the program itself has no name there */
    if (*path != '/' || stat(path, &st) != 0)
        return -1;
    *owner = st.st_uid;
    return 0;
}

static int owner_trusted(uid_t owner)
{
    uid_t installer;

    if (owner == WI_OVERFLOW_UID && !wi_users_are_mapped())
        return 0;
    return owner == 0 || owner == geteuid() || (library_owner(&installer) == 0 && owner == installer);
}

static int one_trusted(const char *path, const struct stat *st, char *why, size_t capacity)
{
    mode_t others = st->st_mode & (S_IWGRP | S_IWOTH);
    char must[120], owner[200];

    if (owner_trusted(st->st_uid) &&
        (S_ISLNK(st->st_mode) || !others || (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX))))
        return 1;
    snprintf(must, sizeof(must),
             "be root's, user %u's or of the owner of weft's library, who alone may write to it (chmod go-w)",
             (unsigned)geteuid());
    snprintf(why, capacity, "%s %s", path, wi_file_owner_text(st, must, owner, sizeof(owner)));
    return 0;
}

/* A path on the way: `done` has been looked at and has no links in it ("" is the root), `rest` is still to come. */
struct walk {
    char done[PATH_MAX], rest[PATH_MAX];
    int links;
};

static int walk_error(const char *path, int error, char *why, size_t capacity)
{
    snprintf(why, capacity, "%s: %s", path, strerror(error));
    return 0;
}

/* The link's target is put before the rest of the path. */
static int walk_link(struct walk *w, const char *link, char *why, size_t capacity)
{
    char target[PATH_MAX], joined[2 * PATH_MAX + 2];
    ssize_t bytes = readlink(link, target, sizeof(target) - 1);

    if (bytes < 0)
        return walk_error(link, errno, why, capacity);
    target[bytes] = '\0';
    if (++w->links > LINKS_MAX)
        return walk_error(link, ELOOP, why, capacity);
    int length = snprintf(joined, sizeof(joined), "%s/%s", target, w->rest);
    if (length < 0 || (size_t)length >= sizeof(w->rest))
        return walk_error(link, ENAMETOOLONG, why, capacity);
    memcpy(w->rest, joined, (size_t)length + 1);
    if (*target == '/')
        w->done[0] = '\0';
    return 1;
}

static int walk_step(struct walk *w, char *why, size_t capacity)
{
    size_t skip = strspn(w->rest, "/"), bytes = strcspn(w->rest + skip, "/");
    char name[NAME_MAX + 1], next[PATH_MAX + NAME_MAX + 2];
    struct stat st;

    if (bytes > NAME_MAX)
        return walk_error(w->rest, ENAMETOOLONG, why, capacity);
    memcpy(name, w->rest + skip, bytes);
    name[bytes] = '\0';
    memmove(w->rest, w->rest + skip + bytes, strlen(w->rest + skip + bytes) + 1);
    if (!*name || strcmp(name, ".") == 0)
        return 1;
    if (strcmp(name, "..") == 0) {
        char *slash = strrchr(w->done, '/');
        if (slash)
            *slash = '\0';
        return 1;
    }
    int length = snprintf(next, sizeof(next), "%s/%s", w->done, name);
    if ((size_t)length >= sizeof(w->done))
        return walk_error(next, ENAMETOOLONG, why, capacity);
    if (lstat(next, &st) != 0)
        return walk_error(next, errno, why, capacity);
    if (!one_trusted(next, &st, why, capacity))
        return 0;
    if (S_ISLNK(st.st_mode))
        return walk_link(w, next, why, capacity);
    memcpy(w->done, next, (size_t)length + 1);
    return 1;
}

int wi_path_trusted(const char *path, char *why, size_t capacity)
{
    char here[PATH_MAX] = "";
    struct walk w = {.links = 0};
    struct stat st;

    if (*path != '/' && !getcwd(here, sizeof(here)))
        return walk_error("the working directory", errno, why, capacity);
    if ((size_t)snprintf(w.rest, sizeof(w.rest), "%s/%s", here, path) >= sizeof(w.rest))
        return walk_error(path, ENAMETOOLONG, why, capacity);
    if (lstat("/", &st) != 0)
        return walk_error("/", errno, why, capacity);
    if (!one_trusted("/", &st, why, capacity))
        return 0;
    while (w.rest[strspn(w.rest, "/")])
        if (!walk_step(&w, why, capacity))
            return 0;
    return 1;
}
