/* Make the nth allocation of a process fail, once: the C library's as the library's objects call them, of the plugins as well
 * (linked with --wrap), and those of libcrypto. Include once in a program; tests/fault/local.mk has the list of symbols.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef FT_EXHAUST_H
#define FT_EXHAUST_H

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <ifaddrs.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum ft_exhausted {
    FT_HEAP,   /* malloc and its like */
    FT_SYSTEM, /* mappings, threads, streams, directories, lists of interfaces */
    FT_CRYPTO, /* what libcrypto allocates */
    FT_KINDS
};

static _Atomic int ft_kind = FT_KINDS;
static _Atomic long ft_seen, ft_fails;
static _Atomic int ft_of_one; /* only that thread's are counted: */
static _Thread_local int ft_is_that;
static void *ft_frames[16];
static int ft_nframes;

static void ft_show_refusal(void)
{
    fprintf(stderr, "refused at (addr2line -fe PROGRAM knows the names):\n");
    backtrace_symbols_fd(ft_frames, ft_nframes, 2); /* shown when a check fails */
}

static int ft_refused(enum ft_exhausted kind)
{
    if (ft_kind != (int)kind || (ft_of_one && !ft_is_that) || atomic_fetch_add(&ft_seen, 1) + 1 != ft_fails)
        return 0;
    ft_nframes = backtrace(ft_frames, 16);
    if (!ft_of_one)
        ft_show_refusal();
    return 1;
}

static void ft_exhaust(enum ft_exhausted kind, long nth)
{
    void *frame[1];

    backtrace(frame, 1); /* it allocates the first time */
    ft_seen = 0;
    ft_fails = nth;
    ft_kind = (int)kind;
}

/* Memory, of the calling thread only. Nothing is printed: ft_show_refusal. */
__attribute__((unused)) static void ft_exhaust_here(long nth)
{
    ft_is_that = ft_of_one = 1;
    ft_exhaust(FT_HEAP, nth);
}

/* Returns how many were asked for since. */
static long ft_relieve(void)
{
    ft_kind = FT_KINDS;
    return ft_seen;
}

/* ---- Blocks that are not freed ---- */

enum { FT_BLOCKS_MAX = 1 << 16 };
static void *ft_blocks[FT_BLOCKS_MAX];
static int ft_nblocks, ft_tracks;
static pthread_mutex_t ft_blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static void *ft_made(void *ptr)
{
    pthread_mutex_lock(&ft_blocks_lock);
    if (ft_tracks && ptr && ft_nblocks < FT_BLOCKS_MAX)
        ft_blocks[ft_nblocks++] = ptr;
    pthread_mutex_unlock(&ft_blocks_lock);
    return ptr;
}

/* One that was made by others, or before, is not there. */
static void ft_freed(const void *ptr)
{
    pthread_mutex_lock(&ft_blocks_lock);
    for (int i = ft_nblocks - 1; i >= 0; i--)
        if (ft_blocks[i] == ptr) {
            ft_blocks[i] = ft_blocks[--ft_nblocks];
            break;
        }
    pthread_mutex_unlock(&ft_blocks_lock);
}

/* What the library allocates from now on; returns how much of it is there still. */
__attribute__((unused)) static void ft_track(void)
{
    ft_nblocks = 0;
    ft_tracks = 1;
}

__attribute__((unused)) static long ft_untrack(void)
{
    ft_tracks = 0;
    return ft_nblocks;
}

#define FT_WRAP_HEAP(name, parameters, arguments)                                          \
    void *__real_##name parameters;                                                        \
    void *__wrap_##name parameters;                                                        \
    void *__wrap_##name parameters                                                         \
    {                                                                                      \
        if (!ft_refused(FT_HEAP))                                                          \
            return ft_made(__real_##name arguments);                                       \
        errno = ENOMEM;                                                                    \
        return NULL;                                                                       \
    }
FT_WRAP_HEAP(malloc, (size_t bytes), (bytes))
FT_WRAP_HEAP(calloc, (size_t count, size_t bytes), (count, bytes))
FT_WRAP_HEAP(aligned_alloc, (size_t align, size_t bytes), (align, bytes))

void *__real_realloc(void *ptr, size_t bytes);
void *__wrap_realloc(void *ptr, size_t bytes);
void *__wrap_realloc(void *ptr, size_t bytes)
{
    if (ft_refused(FT_HEAP)) {
        errno = ENOMEM;
        return NULL;
    }
    ft_freed(ptr); /* the library does not ask for more than there is */
    return ft_made(__real_realloc(ptr, bytes));
}

void __real_free(void *ptr);
void __wrap_free(void *ptr);
void __wrap_free(void *ptr)
{
    ft_freed(ptr);
    __real_free(ptr);
}

/* FT_WRAP(type, name, parameters, arguments, kind, what a refusal returns) */
#define FT_WRAP(type, name, parameters, arguments, kind, refusal) \
    type __real_##name parameters;                                \
    type __wrap_##name parameters;                                \
    type __wrap_##name parameters                                 \
    {                                                             \
        if (ft_refused(kind)) {                                   \
            errno = ENOMEM;                                       \
            return refusal;                                       \
        }                                                         \
        return __real_##name arguments;                           \
    }
FT_WRAP(void *, mmap, (void *at, size_t bytes, int prot, int flags, int fd, off_t from),
        (at, bytes, prot, flags, fd, from), FT_SYSTEM, MAP_FAILED)
FT_WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), FT_SYSTEM, NULL)
FT_WRAP(FILE *, open_memstream, (char **at, size_t *bytes), (at, bytes), FT_SYSTEM, NULL)
FT_WRAP(DIR *, opendir, (const char *path), (path), FT_SYSTEM, NULL)
FT_WRAP(int, getifaddrs, (struct ifaddrs **list), (list), FT_SYSTEM, -1)
FT_WRAP(int, pthread_create,
        (pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg), (thread, attr, fn, arg),
        FT_SYSTEM, EAGAIN)

/* OpenSSL 3.0 leaks where these calls run out of memory half-way (context_init's "err:" frees the context alone, not the data of
 * its parts; a fetch keeps half of a name): what such a call leaves is not the library's. It is noted while the call runs and
 * then taken from the leak checker, block by block, as LSan's suppressions by name cannot: frames of libcrypto cannot be unwound.
 * Whatever else leaks is found, what these calls made without a refusal among it. */
enum { FT_LEFT_MAX = 4096 };
static _Thread_local void *ft_left[FT_LEFT_MAX];
static _Thread_local int ft_nleft;
static _Thread_local int ft_noting;
void __lsan_ignore_object(const void *ptr) __attribute__((weak)); /* with ASan */

static void *ft_note(void *ptr)
{
    if (ft_noting && ptr && ft_nleft < FT_LEFT_MAX)
        ft_left[ft_nleft++] = ptr;
    return ptr;
}

static void ft_forget(const void *ptr)
{
    for (int i = ft_noting ? ft_nleft - 1 : -1; i >= 0; i--) {
        if (ft_left[i] == ptr) {
            ft_left[i] = ft_left[--ft_nleft];
            return;
        }
    }
}

static void *ft_crypto_malloc(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return ft_refused(FT_CRYPTO) ? NULL : ft_note(__real_malloc(bytes));
}

static void *ft_crypto_realloc(void *ptr, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    if (ft_refused(FT_CRYPTO))
        return NULL;
    ft_forget(ptr);
    return ft_note(__real_realloc(ptr, bytes));
}

static void ft_crypto_free(void *ptr, const char *file, int line)
{
    (void)file, (void)line;
    ft_forget(ptr);
    free(ptr);
}

static int ft_is_refused(void)
{
    return ft_kind == FT_CRYPTO && ft_seen >= ft_fails;
}

static void ft_ignore_left(void)
{
    for (int i = 0; __lsan_ignore_object && i < ft_nleft; i++)
        __lsan_ignore_object(ft_left[i]);
}

/* FT_LEAKS(type, name, parameters, arguments) */
#define FT_LEAKS(type, name, parameters, arguments) \
    type __real_##name parameters;                  \
    type __wrap_##name parameters;                  \
    type __wrap_##name parameters                   \
    {                                               \
        int before = ft_is_refused();               \
        type made;                                  \
                                                    \
        ft_noting = 1;                              \
        ft_nleft = 0;                               \
        made = __real_##name arguments;             \
        ft_noting = 0;                              \
        if (!before && ft_is_refused())             \
            ft_ignore_left();                       \
        return made;                                \
    }
FT_LEAKS(OSSL_LIB_CTX *, OSSL_LIB_CTX_new, (void), ())
FT_LEAKS(EVP_KDF *, EVP_KDF_fetch, (OSSL_LIB_CTX * lib, const char *name, const char *properties),
         (lib, name, properties))
FT_LEAKS(EVP_MAC *, EVP_MAC_fetch, (OSSL_LIB_CTX * lib, const char *name, const char *properties),
         (lib, name, properties))

/* Before libcrypto allocates anything. 0: it did already. */
__attribute__((unused)) static int ft_exhaust_init(void)
{
    return CRYPTO_set_mem_functions(ft_crypto_malloc, ft_crypto_realloc, ft_crypto_free);
}

#endif
