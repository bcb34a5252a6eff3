/* SPDX-License-Identifier: BSD-3-Clause */
/* The codecs of this process: built in, and loaded. What is loaded stays, so that codecs may be kept by value and used by any
 * thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "compress/built_in.h"
#include "compress/call_parameters.h"
#include "compress/codec.h"

static const struct weft_plugin *const built_in[] = {
#define ROW(name) &wi_codec_##name,
    WI_CODEC_LIST(ROW)
#undef ROW
};
#define NBUILT_IN (sizeof built_in / sizeof *built_in)

enum { MOST_LOADED = 64 };
static struct {
    const struct weft_plugin *plugin;
    struct weft_codec_ops ops;
    char *path;
} loaded[MOST_LOADED];
static atomic_size_t nloaded; /* written with the lock held, after the entry */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct weft_plugin *wi_codec_at(size_t i)
{
    if (i < NBUILT_IN)
        return built_in[i];
    i -= NBUILT_IN;
    return i < atomic_load_explicit(&nloaded, memory_order_acquire) ? loaded[i].plugin : NULL;
}

const struct weft_plugin *wi_codec_find(const char *name)
{
    const struct weft_plugin *p;

    for (size_t i = 0; (p = wi_codec_at(i)) != NULL; i++)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

const struct weft_codec_ops *wi_codec_ops(const struct weft_plugin *plugin)
{
    size_t n = atomic_load_explicit(&nloaded, memory_order_acquire);

    for (size_t i = 0; i < n; i++)
        if (loaded[i].plugin == plugin)
            return &loaded[i].ops;
    return plugin->ops;
}

const char *wi_codec_path(const struct weft_plugin *plugin)
{
    size_t n = atomic_load_explicit(&nloaded, memory_order_acquire);

    for (size_t i = 0; i < n; i++)
        if (loaded[i].plugin == plugin)
            return loaded[i].path;
    return NULL;
}

/* ---- Those that are not there ---- */

static const char *const as_plugins[] = {"lossless"}; /* the library's own, with a library that not all have */
static char looked_in[200];                           /* with the lock held */

void wi_codec_looked_in(const char *plugin_path)
{
    pthread_mutex_lock(&lock);
    snprintf(looked_in, sizeof looked_in, "%s", plugin_path);
    wi_text_sanitize(looked_in, sizeof looked_in);
    pthread_mutex_unlock(&lock);
}

int wi_codec_is_missing(const char *name, char *why, size_t capacity)
{
    size_t i = 0;

    while (i < sizeof as_plugins / sizeof *as_plugins && strcmp(as_plugins[i], name) != 0)
        i++;
    if (i == sizeof as_plugins / sizeof *as_plugins)
        return 0;
    pthread_mutex_lock(&lock);
    if (*looked_in)
        snprintf(why, capacity, "it is a plugin, and was not loaded from %s (WEFT_PLUGIN_PATH); weft-info says why",
                 looked_in);
    else
        snprintf(why, capacity, "it is a plugin, and plugins are loaded when a context is made, from WEFT_PLUGIN_PATH");
    pthread_mutex_unlock(&lock);
    return 1;
}

/* ---- What a plugin brings ---- */

static int is_name(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n && n <= WEFT_CODEC_NAME_MAX && !name[n];
}

static weft_status check_row(const struct weft_plugin *p, const struct weft_codec_parameter *row)
{
    static const char *const taken[] = {
#define NAME(id, name) name,
        WI_CODEC_CALL_LIST(NAME)
#undef NAME
    };
    int numbers = row->type != WEFT_CODEC_WORD;

    if (!is_name(row->name))
        return wi_fail(WEFT_EPLUGIN, "codec %s has a parameter whose name is not 1 to %d of a-z, 0-9 and _", p->name,
                       WEFT_CODEC_NAME_MAX);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(row->name, taken[i]))
            return wi_fail(WEFT_EPLUGIN, "codec %s has a parameter \"%s\", which is of calls", p->name, row->name);
    if (row->type < WEFT_CODEC_POWER_OF_TWO || row->type > WEFT_CODEC_WORD || !row->default_value || !row->help ||
        (numbers ? !(row->min <= row->max) : !row->words))
        return wi_fail(WEFT_EPLUGIN, "codec %s: the row of its parameter %s is not complete", p->name, row->name);
    return WEFT_SUCCESS;
}

weft_status wi_codec_check_plugin(const struct weft_plugin *p, const struct weft_codec_ops *ops)
{
    size_t rows = 0;

    if (!strcmp(p->name, "none") || p->settings)
        return wi_fail(WEFT_EPLUGIN, "codec %s %s", p->name,
                       p->settings ? "has settings; codecs have parameters" : "would mean that there is none");
    if (!ops->configure || !ops->encode || (!ops->decode && !ops->read) || !ops->is_finite)
        return wi_fail(WEFT_EPLUGIN, "codec %s lacks configure, encode, decode (or read) or is_finite", p->name);
    for (const struct weft_codec_parameter *row = ops->parameters; row && row->name; row++) {
        if (++rows > WEFT_CODEC_PARAMETERS_MAX)
            return wi_fail(WEFT_EPLUGIN, "codec %s has more than %d parameters", p->name, WEFT_CODEC_PARAMETERS_MAX);
        WI_TRY(check_row(p, row));
    }
    return WEFT_SUCCESS;
}

static weft_status add(const struct weft_plugin *p, const char *path, int *added)
{
    size_t n = atomic_load_explicit(&nloaded, memory_order_relaxed);
    const struct weft_plugin *same = wi_codec_find(p->name);
    const struct weft_codec_ops *theirs = p->ops;
    struct weft_codec_ops ops = {.bytes = 0};

    if (same == p)
        return WEFT_SUCCESS;
    if (same)
        return wi_fail(WEFT_EPLUGIN, "there is a codec %s already, and the first of a name counts", p->name);
    if (n == MOST_LOADED)
        return wi_fail(WEFT_EPLUGIN, "more than %d codecs are loaded", MOST_LOADED);
    memcpy(&ops, theirs, theirs->bytes < sizeof ops ? theirs->bytes : sizeof ops);
    WI_TRY(wi_codec_check_plugin(p, &ops));
    loaded[n].path = wi_strdup(path);
    if (!loaded[n].path)
        return wi_fail(WEFT_ENOMEM, "codec %s", p->name);
    loaded[n].ops = ops;
    loaded[n].plugin = p;
    atomic_store_explicit(&nloaded, n + 1, memory_order_release);
    *added = 1;
    return WEFT_SUCCESS;
}

weft_status wi_codec_add(const struct weft_plugin *plugin, const char *path, int *added)
{
    weft_status st;

    *added = 0;
    if (!is_name(plugin->name))
        return wi_fail(WEFT_EPLUGIN, "the name of a codec is 1 to %d of a-z, 0-9 and _", WEFT_CODEC_NAME_MAX);
    pthread_mutex_lock(&lock);
    st = add(plugin, path, added);
    pthread_mutex_unlock(&lock);
    return st;
}
