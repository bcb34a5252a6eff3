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

static int ft_refused(enum ft_exhausted kind)
{
    void *frames[16];

    if (ft_kind != (int)kind || atomic_fetch_add(&ft_seen, 1) + 1 != ft_fails)
        return 0;
    fprintf(stderr, "refused at (addr2line -fe PROGRAM knows the names):\n");
    backtrace_symbols_fd(frames, backtrace(frames, 16), 2); /* shown when a check fails */
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

/* Returns how many were asked for since. */
static long ft_relieve(void)
{
    ft_kind = FT_KINDS;
    return ft_seen;
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
FT_WRAP(void *, malloc, (size_t bytes), (bytes), FT_HEAP, NULL)
FT_WRAP(void *, calloc, (size_t count, size_t bytes), (count, bytes), FT_HEAP, NULL)
FT_WRAP(void *, realloc, (void *ptr, size_t bytes), (ptr, bytes), FT_HEAP, NULL)
FT_WRAP(void *, aligned_alloc, (size_t align, size_t bytes), (align, bytes), FT_HEAP, NULL)
FT_WRAP(void *, mmap, (void *at, size_t bytes, int prot, int flags, int fd, off_t from),
        (at, bytes, prot, flags, fd, from), FT_SYSTEM, MAP_FAILED)
FT_WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), FT_SYSTEM, NULL)
FT_WRAP(FILE *, open_memstream, (char **at, size_t *bytes), (at, bytes), FT_SYSTEM, NULL)
FT_WRAP(DIR *, opendir, (const char *path), (path), FT_SYSTEM, NULL)
FT_WRAP(int, getifaddrs, (struct ifaddrs **list), (list), FT_SYSTEM, -1)
FT_WRAP(int, pthread_create,
        (pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg), (thread, attr, fn, arg),
        FT_SYSTEM, EAGAIN)

static void *ft_crypto_malloc(size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return ft_refused(FT_CRYPTO) ? NULL : __real_malloc(bytes);
}

static void *ft_crypto_realloc(void *ptr, size_t bytes, const char *file, int line)
{
    (void)file, (void)line;
    return ft_refused(FT_CRYPTO) ? NULL : __real_realloc(ptr, bytes);
}

static void ft_crypto_free(void *ptr, const char *file, int line)
{
    (void)file, (void)line;
    free(ptr);
}

/* Before libcrypto allocates anything. 0: it did already. */
static int ft_exhaust_init(void)
{
    return CRYPTO_set_mem_functions(ft_crypto_malloc, ft_crypto_realloc, ft_crypto_free);
}

#endif
