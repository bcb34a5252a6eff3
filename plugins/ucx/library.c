/* library.c: libucp is loaded at run time, and kept from printing and from handling signals.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that does not use UCX is not to have it: it hooks the allocator's system calls and starts a thread. So the plugin is not
 * linked to it.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

struct wu_library wu_ucx;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static int loaded;
static __thread const struct weft_host *inside;

/* ---- Messages ---- */

static ucs_log_func_rc_t log_message(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                     const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    enum weft_log_level ours = level <= UCS_LOG_LEVEL_ERROR  ? WEFT_LOG_WARN
                               : level == UCS_LOG_LEVEL_WARN ? WEFT_LOG_INFO
                                                             : WEFT_LOG_DEBUG;
    const char *base = strrchr(file, '/');
    char text[400];

    (void)function, (void)component;
    if (!inside)
        return UCS_LOG_FUNC_RC_CONTINUE;
    vsnprintf(text, sizeof text, format, ap);
    inside->log(inside->impl, ours, "ucx.message", "%s:%u: %s", base ? base + 1 : file, line, text);
    return UCS_LOG_FUNC_RC_STOP;
}

void wu_library_enter(const struct weft_host *host)
{
    inside = host;
}

void wu_library_leave(void)
{
    inside = NULL;
}

/* ---- Loading ---- */

/* UCX replaces handlers of a crash when it is loaded (UCX_HANDLE_ERRORS): those are the program's, unless the user asks for it. */
static const int crashes[] = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
#define NCRASHES (sizeof crashes / sizeof crashes[0])

static void *open_library(const char *name)
{
    struct sigaction before[NCRASHES];
    int keep = !getenv("UCX_HANDLE_ERRORS");
    void *handle;

    for (size_t i = 0; i < NCRASHES; i++)
        sigaction(crashes[i], NULL, &before[i]);
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (size_t i = 0; keep && i < NCRASHES; i++)
        sigaction(crashes[i], &before[i], NULL);
    return handle;
}

static weft_status missing(const struct weft_host *host, const char *what)
{
    const char *why = dlerror();

    host->explain(host->impl, WEFT_ENOTSUP, "ucx: %s: %s (UCX 1.13 or newer; Debian package libucx0)", what,
                  why ? why : "unknown");
    return WEFT_ENOTSUP;
}

static weft_status load(const struct weft_host *host)
{
    void *ucp = open_library("libucp.so.0");
    __typeof__(&ucs_log_push_handler) push;

    if (!ucp)
        return missing(host, "libucp.so.0 cannot be loaded");
    /* libucp needs libucs: a symbol of either is found by libucp's handle. */
#define WU_FIND(name)                                       \
    *(void **)&wu_ucx.name = dlsym(ucp, #name);             \
    if (!wu_ucx.name)                                       \
        return missing(host, "libucp.so.0 lacks a function");
    WU_FUNCTIONS(WU_FIND)
#undef WU_FIND
    *(void **)&push = dlsym(ucp, "ucs_log_push_handler");
    if (push && !getenv("UCX_LOG_LEVEL") && !getenv("UCX_LOG_FILE"))
        push(log_message);
    loaded = 1;
    return WEFT_SUCCESS;
}

weft_status wu_library_load(const struct weft_host *host)
{
    weft_status st = WEFT_SUCCESS;

    pthread_mutex_lock(&loading);
    if (!loaded)
        st = load(host);
    pthread_mutex_unlock(&loading);
    return st;
}
