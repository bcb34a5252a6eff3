/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes are kept until the process ends. A file has its contents, and those of its newest sync; a folder has its entries as of its
 * newest sync, and the changes since then in their order. A rename is one change: file systems with a journal do it as a whole. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef HAVE_FUSE3
#define FUSE_USE_VERSION 31
#include "faultfs.h"

#include <errno.h>
#include <fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES_MAX = 64, CHANGES_MAX = 512, NAME_BYTES = 160 };

struct node;
struct entry {
    char name[NAME_BYTES];
    struct node *node;
};
struct entries {
    int count;
    struct entry list[ENTRIES_MAX];
};
struct bytes {
    unsigned char *data;
    size_t count;
};
/* One of: `name` is `node`, and `other` (if there is one) is `other_node`. A node that is NULL: the name is no more. */
struct change {
    char name[NAME_BYTES], other[NAME_BYTES];
    struct node *node, *other_node;
};
struct node {
    mode_t mode;
    ino_t number;
    struct bytes now, synced;  /* of a file */
    struct entries *all, *old; /* of a folder: now, and at its newest sync */
    struct change *changes;
    int nchanges;
    struct node *next;
};

static struct faultfs_control *control;
static struct node *root, *nodes;
static int is_off;

/* ---- Entries ---- */

static struct node *find(const struct entries *e, const char *name)
{
    for (int i = 0; i < e->count; i++)
        if (!strcmp(e->list[i].name, name))
            return e->list[i].node;
    return NULL;
}

static void put(struct entries *e, const char *name, struct node *node)
{
    for (int i = 0; i < e->count; i++)
        if (!strcmp(e->list[i].name, name)) {
            if (node)
                e->list[i].node = node;
            else
                e->list[i] = e->list[--e->count];
            return;
        }
    if (node && e->count < ENTRIES_MAX) {
        snprintf(e->list[e->count].name, NAME_BYTES, "%s", name);
        e->list[e->count++].node = node;
    }
}

static void apply(struct entries *e, const struct change *c)
{
    put(e, c->name, c->node);
    if (c->other[0])
        put(e, c->other, c->other_node);
}

static int change(struct node *dir, const char *name, struct node *node, const char *other, struct node *other_node)
{
    struct change *c = &dir->changes[dir->nchanges];

    if (dir->nchanges == CHANGES_MAX || dir->all->count == ENTRIES_MAX)
        return -ENOSPC;
    dir->nchanges++;
    snprintf(c->name, NAME_BYTES, "%s", name);
    snprintf(c->other, NAME_BYTES, "%s", other);
    c->node = node;
    c->other_node = other_node;
    apply(dir->all, c);
    return 0;
}

static struct node *new_node(mode_t mode)
{
    static ino_t number;
    struct node *n = calloc(1, sizeof(*n));

    n->mode = mode;
    n->number = ++number;
    if (S_ISDIR(mode)) {
        n->all = calloc(1, sizeof(*n->all));
        n->old = calloc(1, sizeof(*n->old));
        n->changes = calloc(CHANGES_MAX, sizeof(*n->changes));
    }
    n->next = nodes;
    return nodes = n;
}

static void copy(struct bytes *to, const struct bytes *from)
{
    to->data = realloc(to->data, from->count + 1);
    to->count = from->count;
    if (from->count > 0)
        memcpy(to->data, from->data, from->count);
}

/* ---- Power ---- */

static uint64_t random_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void lose_folder(struct node *n, uint64_t *seed)
{
    int survive = *seed ? (int)(random_of(seed) % (unsigned)(n->nchanges + 1)) : 0;

    for (int i = 0; i < survive; i++)
        apply(n->old, &n->changes[i]);
    *n->all = *n->old;
    n->nchanges = 0;
}

static void lose_file(struct node *n, uint64_t *seed)
{
    uint64_t what = *seed ? random_of(seed) % 3 : 0;
    size_t kept;

    if (n->now.count == n->synced.count && (n->now.count == 0 || !memcmp(n->now.data, n->synced.data, n->now.count)))
        return;
    if (what == 0) {
        copy(&n->now, &n->synced);
    } else if (what == 1) { /* its size is there, but not all of its blocks */
        kept = n->now.count ? random_of(seed) % n->now.count : 0;
        memset(n->now.data + kept, 0, n->now.count - kept);
    }
    copy(&n->synced, &n->now);
}

static void reboot(void)
{
    uint64_t seed = atomic_load(&control->seed);

    for (struct node *n = nodes; n; n = n->next) {
        if (S_ISDIR(n->mode))
            lose_folder(n, &seed);
        else
            lose_file(n, &seed);
    }
    is_off = 0;
    atomic_store(&control->off_at, 0);
    atomic_store(&control->reboot, 0);
}

/* The begin of every call. */
static int call(int changes)
{
    long at;

    if (atomic_load(&control->reboot))
        reboot();
    if (changes) {
        at = atomic_fetch_add(&control->calls, 1) + 1;
        if (at == atomic_load(&control->off_at))
            is_off = 1;
        if (at == atomic_load(&control->fail_at))
            return -EIO;
    }
    return is_off ? -EIO : 0;
}
#define CALL(changes)                \
    do {                             \
        int failure = call(changes); \
        if (failure)                 \
            return failure;          \
    } while (0)

/* ---- Paths ---- */

/* The folder that a path's last name is in; NULL: there is none. */
static struct node *folder_of(const char *path, char name[NAME_BYTES])
{
    struct node *dir = root;

    for (path++;;) {
        size_t n = strcspn(path, "/");

        snprintf(name, NAME_BYTES, "%.*s", (int)n, path);
        if (!path[n])
            return dir;
        dir = find(dir->all, name);
        if (!dir || !S_ISDIR(dir->mode))
            return NULL;
        path += n + 1;
    }
}

static struct node *lookup(const char *path)
{
    char name[NAME_BYTES];
    struct node *dir = folder_of(path, name);

    return !dir || !name[0] ? dir : find(dir->all, name);
}

static struct node *node_of(const char *path, const struct fuse_file_info *info)
{
    return info && info->fh ? (struct node *)(uintptr_t)info->fh : lookup(path);
}

/* ---- Calls ---- */

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    struct node *n;

    CALL(0);
    n = node_of(path, info);
    if (!n)
        return -ENOENT;
    memset(st, 0, sizeof(*st));
    st->st_mode = n->mode;
    st->st_ino = n->number;
    st->st_nlink = 1;
    st->st_uid = getuid();
    st->st_gid = getgid();
    st->st_size = (off_t)n->now.count;
    return 0;
}

static int fs_open(const char *path, struct fuse_file_info *info)
{
    struct node *n;

    CALL(0);
    n = lookup(path);
    info->fh = (uint64_t)(uintptr_t)n;
    return n ? 0 : -ENOENT;
}

static int fs_readdir(const char *path, void *out, fuse_fill_dir_t fill, off_t at, struct fuse_file_info *info,
                      enum fuse_readdir_flags flags)
{
    struct node *n;

    (void)at;
    (void)flags;
    CALL(0);
    n = node_of(path, info);
    for (int i = 0; i < n->all->count; i++)
        fill(out, n->all->list[i].name, NULL, 0, 0);
    return 0;
}

static int make(const char *path, mode_t mode, struct node **made)
{
    char name[NAME_BYTES];
    struct node *dir = folder_of(path, name);

    if (!dir)
        return -ENOENT;
    if (find(dir->all, name))
        return -EEXIST;
    *made = new_node(mode);
    return change(dir, name, *made, "", NULL);
}

static int fs_mkdir(const char *path, mode_t mode)
{
    struct node *made;

    CALL(1);
    return make(path, mode | S_IFDIR, &made);
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
    struct node *made;
    int e;

    CALL(1);
    e = make(path, mode | S_IFREG, &made);
    info->fh = e ? 0 : (uint64_t)(uintptr_t)made;
    return e;
}

static int fs_unlink(const char *path)
{
    char name[NAME_BYTES];
    struct node *dir, *n;

    CALL(1);
    dir = folder_of(path, name);
    n = dir ? find(dir->all, name) : NULL;
    if (!n)
        return -ENOENT;
    if (S_ISDIR(n->mode) && n->all->count > 0)
        return -ENOTEMPTY;
    return change(dir, name, NULL, "", NULL);
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
    char name[NAME_BYTES], other[NAME_BYTES];
    struct node *dir, *n, *there;

    CALL(1);
    dir = folder_of(from, name);
    if (!dir || dir != folder_of(to, other))
        return dir ? -EXDEV : -ENOENT;
    n = find(dir->all, name);
    there = find(dir->all, other);
    if (!n)
        return -ENOENT;
    if (flags & RENAME_EXCHANGE)
        return there ? change(dir, name, there, other, n) : -ENOENT;
    if (there && (flags & RENAME_NOREPLACE))
        return -EEXIST;
    if (there && S_ISDIR(there->mode) && there->all->count > 0)
        return -ENOTEMPTY;
    return change(dir, name, NULL, other, n);
}

static int fs_link(const char *from, const char *to)
{
    char name[NAME_BYTES];
    struct node *n, *dir;

    CALL(1);
    n = lookup(from);
    dir = folder_of(to, name);
    if (!n || !dir)
        return -ENOENT;
    return find(dir->all, name) ? -EEXIST : change(dir, name, n, "", NULL);
}

static int fs_read(const char *path, char *out, size_t bytes, off_t at, struct fuse_file_info *info)
{
    struct node *n;

    CALL(0);
    n = node_of(path, info);
    if ((size_t)at >= n->now.count)
        return 0;
    if (bytes > n->now.count - (size_t)at)
        bytes = n->now.count - (size_t)at;
    memcpy(out, n->now.data + at, bytes);
    return (int)bytes;
}

static int resize(struct node *n, size_t count)
{
    if (count > n->now.count) {
        n->now.data = realloc(n->now.data, count);
        memset(n->now.data + n->now.count, 0, count - n->now.count);
    }
    n->now.count = count;
    return 0;
}

static int fs_write(const char *path, const char *in, size_t bytes, off_t at, struct fuse_file_info *info)
{
    struct node *n;

    CALL(1);
    if (atomic_fetch_sub(&control->space, (long long)bytes) < (long long)bytes)
        return -ENOSPC;
    n = node_of(path, info);
    if ((size_t)at + bytes > n->now.count)
        resize(n, (size_t)at + bytes);
    memcpy(n->now.data + at, in, bytes);
    return (int)bytes;
}

static int fs_truncate(const char *path, off_t count, struct fuse_file_info *info)
{
    CALL(1);
    return resize(node_of(path, info), (size_t)count);
}

static int fs_fsync(const char *path, int datasync, struct fuse_file_info *info)
{
    struct node *n;

    (void)datasync;
    CALL(1);
    n = node_of(path, info);
    copy(&n->synced, &n->now);
    return 0;
}

static int fs_fsyncdir(const char *path, int datasync, struct fuse_file_info *info)
{
    struct node *n;

    (void)datasync;
    CALL(1);
    n = node_of(path, info);
    *n->old = *n->all;
    n->nchanges = 0;
    return 0;
}

/* Nothing is cached by the kernel: after a reboot it is another world. */
static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->direct_io = 1;
    config->hard_remove = 1;
    config->use_ino = 1;
    config->nullpath_ok = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = fs_init,
    .getattr = fs_getattr,
    .open = fs_open,
    .opendir = fs_open,
    .readdir = fs_readdir,
    .mkdir = fs_mkdir,
    .create = fs_create,
    .unlink = fs_unlink,
    .rmdir = fs_unlink,
    .rename = fs_rename,
    .link = fs_link,
    .read = fs_read,
    .write = fs_write,
    .truncate = fs_truncate,
    .fsync = fs_fsync,
    .fsyncdir = fs_fsyncdir,
};

/* ---- Mounting ---- */

static pid_t server;
static char mounted[1000];

void faultfs_unmount(void)
{
    if (server <= 0 || server == getpid())
        return;
    umount2(mounted, MNT_DETACH);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
}

static int is_mounted(const char *path, dev_t before)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_dev != before;
}

static _Noreturn void serve(const char *path)
{
    char *args[] = {"faultfs", "-f", "-s", (char *)(uintptr_t)path, NULL};

    root = new_node(S_IFDIR | 0755);
    _exit(fuse_main(4, args, &operations, NULL));
}

struct faultfs_control *faultfs_mount(const char *path)
{
    struct stat before;

    if (stat(path, &before) < 0)
        return NULL;
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (control == MAP_FAILED)
        return NULL;
    atomic_store(&control->space, 1ll << 40);
    snprintf(mounted, sizeof(mounted), "%s", path);
    server = fork();
    if (server == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        serve(path);
    }
    for (;;) { /* until it is there, or has given up */
        if (is_mounted(path, before.st_dev))
            return control;
        if (waitpid(server, NULL, WNOHANG) == server)
            break;
        usleep(1000);
    }
    server = 0;
    errno = ENOTSUP;
    return NULL;
}
#else
typedef int faultfs_needs_fuse; /* a file is not empty */
#endif
