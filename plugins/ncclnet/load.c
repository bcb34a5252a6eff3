/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding and loading a network plugin, by NCCL's rules for NCCL_NET_PLUGIN: a list, of which the first that can be loaded counts;
 * each a path, the name of a library, or X for libnccl-net-X.so; "none" for none. Not so: without the variable nothing is looked
 * for. Who has installed a plugin for NCCL has not asked weft to load it. */
#define _GNU_SOURCE
#include "ncclnet.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOSTS_MAX 64

/* ---- NCCL's call-backs ---- */

static pthread_mutex_t hosts_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct weft_host *hosts[HOSTS_MAX];
static int nhosts;

void nn_log_add(const struct weft_host *host)
{
    pthread_mutex_lock(&hosts_lock);
    if (nhosts < HOSTS_MAX)
        hosts[nhosts++] = host;
    pthread_mutex_unlock(&hosts_lock);
}

void nn_log_remove(const struct weft_host *host)
{
    pthread_mutex_lock(&hosts_lock);
    for (int i = 0; i < nhosts; i++)
        if (hosts[i] == host) {
            memmove(hosts + i, hosts + i + 1, (size_t)(--nhosts - i) * sizeof *hosts);
            break;
        }
    pthread_mutex_unlock(&hosts_lock);
}

static enum weft_log_level level_of(int level)
{
    static const enum weft_log_level levels[] = {WEFT_LOG_DEBUG, WEFT_LOG_INFO,  WEFT_LOG_WARN,
                                                 WEFT_LOG_DEBUG, WEFT_LOG_ERROR, WEFT_LOG_TRACE};

    return level >= 0 && level < (int)(sizeof levels / sizeof *levels) ? levels[level] : WEFT_LOG_DEBUG;
}

/* Plugins call it from any thread, their own included. As in NCCL nothing is formatted that is not logged: a plugin has been met
 * whose arguments do not fit its text. */
void nn_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    enum weft_log_level wanted = level_of(level);
    const struct weft_host *host;
    char text[512];
    size_t end;
    va_list ap;

    (void)flags;
    pthread_mutex_lock(&hosts_lock);
    host = nhosts ? hosts[nhosts - 1] : NULL;
    if (host && format && WEFT_HOST_HAS(host, log_wanted) && host->log_wanted(host->impl, wanted)) {
        va_start(ap, format);
        vsnprintf(text, sizeof text, format, ap);
        va_end(ap);
        for (end = strlen(text); end && text[end - 1] == '\n'; end--)
            text[end - 1] = '\0';
        host->log(host->impl, wanted, "ncclnet.plugin", "%s (%s:%d)", text, file ? file : "?", line);
    }
    pthread_mutex_unlock(&hosts_lock);
}

/* Events of NCCL's profiler: nobody collects them. */
int nn_profile(void **event, int type, void *parent, int64_t plugin, void *data)
{
    (void)event, (void)type, (void)parent, (void)plugin, (void)data;
    return NN_SUCCESS;
}

/* ---- Files ---- */

static pthread_mutex_t libs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nn_lib *libs;

/* What became of a list of names, for the message. */
struct attempt {
    const struct weft_host *host;
    const struct nn_settings *settings;
    char why[700];
};

__attribute__((format(printf, 2, 3))) static void note(struct attempt *a, const char *format, ...)
{
    size_t used = strlen(a->why);
    va_list ap;

    if (used + 3 < sizeof a->why)
        used += (size_t)snprintf(a->why + used, sizeof a->why - used, "%s", used ? "; " : "");
    va_start(ap, format);
    vsnprintf(a->why + used, sizeof a->why - used, format, ap);
    va_end(ap);
}

/* The folders that the loader searches, for a library without a path: LD_LIBRARY_PATH and the standard ones. What only the loader's
 * cache knows is in folders that root has named. 0: not found there. */
static int find_in_folders(const char *name, char *path, size_t capacity)
{
    void *self = dlopen(NULL, RTLD_NOW);
    Dl_serinfo size, *info;
    int found = 0;

    if (!self || dlinfo(self, RTLD_DI_SERINFOSIZE, &size))
        return 0;
    info = malloc(size.dls_size);
    if (info && dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(self, RTLD_DI_SERINFO, info) == 0)
        for (unsigned i = 0; i < info->dls_cnt && !found; i++) {
            FILE *file;
            int n = snprintf(path, capacity, "%s/%s", info->dls_serpath[i].dls_name, name);
            file = n > 0 && (size_t)n < capacity ? fopen(path, "re") : NULL;
            if (file)
                fclose(file);
            found = file != NULL;
        }
    free(info);
    dlclose(self);
    return found;
}

/* A library is code: who could have changed it runs it in this process. */
static int trusted(struct attempt *a, const char *path)
{
    char why[600];

    if (!WEFT_HOST_HAS(a->host, path_trusted)) {
        note(a, "%s: this libweft cannot tell whether others may write to it", path);
        return 0;
    }
    if (a->host->path_trusted(path, why, sizeof why))
        return 1;
    note(a, "%s", why);
    return 0;
}

/* NULL: noted, or *absent. */
static void *open_file(struct attempt *a, const char *name, int *absent)
{
    const struct link_map *map;
    char path[PATH_MAX];
    void *file;

    *absent = 0;
    if (!strchr(name, '/') && !find_in_folders(name, path, sizeof path))
        snprintf(path, sizeof path, "%s", name); /* the loader's cache may know it */
    else if (strchr(name, '/'))
        snprintf(path, sizeof path, "%s", name);
    if (strchr(path, '/')) {
        FILE *there = fopen(path, "re");
        *absent = !there;
        if (there)
            fclose(there);
        if (*absent || !trusted(a, path))
            return NULL;
    }
    file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        const char *why = dlerror();
        *absent = !strchr(path, '/');
        if (!*absent)
            note(a, "%s", why ? why : path);
        return NULL;
    }
    if (!strchr(path, '/') && dlinfo(file, RTLD_DI_LINKMAP, &map) == 0 && !trusted(a, map->l_name)) {
        dlclose(file);
        return NULL;
    }
    return file;
}

static struct nn_lib *known(void *file, int version)
{
    struct nn_lib *lib = libs;

    while (lib && (lib->file != file || lib->version != version))
        lib = lib->next;
    return lib;
}

/* The highest version that both know. NULL: noted. */
static struct nn_lib *bind_file(struct attempt *a, const char *name, void *file)
{
    int top = (int)a->settings->max_version;
    const struct link_map *map = NULL;
    struct nn_lib *lib;
    char symbol[32];
    const void *raw;

    for (int version = top; version >= NN_VERSION_MIN; version--) {
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", version);
        raw = dlsym(file, symbol);
        if (!raw)
            continue;
        lib = known(file, version);
        if (lib)
            return lib;
        lib = calloc(1, sizeof *lib);
        if (!lib) {
            note(a, "no memory");
            return NULL;
        }
        lib->raw = raw;
        lib->version = version;
        if (!nn_has_init(lib)) {
            note(a, "%s: %s lacks the function init", name, symbol);
            free(lib);
            return NULL;
        }
        lib->file = file;
        dlinfo(file, RTLD_DI_LINKMAP, &map);
        snprintf(lib->path, sizeof lib->path, "%s", map && map->l_name ? map->l_name : name);
        lib->next = libs;
        return libs = lib;
    }
    note(a,
         "%s has none of the symbols ncclNetPlugin_v%d to _v%d: it is no network plugin of NCCL, or made for one "
         "before 2.20",
         name, top, NN_VERSION_MIN);
    return NULL;
}

/* NCCL's: neither a path nor a library's name. */
static int is_suffix(const char *name)
{
    size_t len = strlen(name);

    return !strchr(name, '/') && (strncmp(name, "lib", 3) != 0 || len < 3 || strcmp(name + len - 3, ".so") != 0);
}

static struct nn_lib *try_name(struct attempt *a, const char *name)
{
    char full[300] = "";
    struct nn_lib *lib;
    void *file;
    int absent;

    if (strcasecmp(name, "STATIC_PLUGIN") == 0) {
        note(a, "STATIC_PLUGIN: plugins that are linked into the program are not supported");
        return NULL;
    }
    file = open_file(a, name, &absent);
    if (!file && absent && is_suffix(name)) {
        snprintf(full, sizeof full, "libnccl-net-%s.so", name);
        file = open_file(a, full, &absent);
    }
    if (!file && absent)
        note(a, "%s%s%s: no such file, nor is it in LD_LIBRARY_PATH or where the loader looks", name,
             *full ? " or " : "", full);
    if (!file)
        return NULL;
    lib = bind_file(a, name, file);
    if (!lib)
        dlclose(file);
    return lib;
}

/* `list` is changed. */
static struct nn_lib *try_list(struct attempt *a, char *list)
{
    struct nn_lib *lib = NULL;
    char *rest;

    for (char *name = strtok_r(list, ",", &rest); name && !lib; name = strtok_r(NULL, ",", &rest))
        lib = try_name(a, name);
    return lib;
}

/* Who names a plugin to weft wants it: that is an error of the settings. NCCL's variable may be set where weft does not matter;
 * with WEFT_EPLUGIN the transport is left out with a warning, unless WEFT_TRANSPORTS names it. */
struct nn_lib *nn_load(const struct weft_host *host, const struct nn_settings *settings, weft_status *status)
{
    const char *ours = settings->plugin && *settings->plugin ? settings->plugin : NULL;
    const char *named = ours ? ours : secure_getenv("NCCL_NET_PLUGIN");
    const char *variable = ours ? "WEFT_NCCLNET_PLUGIN" : "NCCL_NET_PLUGIN";
    struct attempt a = {host, settings, ""};
    struct nn_lib *lib;
    char *list;

    *status = WEFT_ENOTSUP;
    if (!named || !*named || strcasecmp(named, "none") == 0) {
        host->explain(host->impl, WEFT_ENOTSUP,
                      "no network plugin of NCCL is named (WEFT_NCCLNET_PLUGIN or "
                      "NCCL_NET_PLUGIN)");
        return NULL;
    }
    list = strdup(named);
    pthread_mutex_lock(&libs_lock);
    lib = list ? try_list(&a, list) : NULL;
    pthread_mutex_unlock(&libs_lock);
    free(list);
    if (lib)
        return lib;
    *status = ours ? WEFT_ECONFIG : WEFT_EPLUGIN;
    host->explain(host->impl, *status, "%s=%s: %s; name a libnccl-net-*.so with its path, or set %s=none", variable,
                  named, *a.why ? a.why : "it names nothing", variable);
    return NULL;
}
