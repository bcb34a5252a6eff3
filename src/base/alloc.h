/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation with failure injection: tests make the nth allocation fail. Production cost: one predictable branch. */
#ifndef WI_BASE_ALLOC_H
#define WI_BASE_ALLOC_H

#include <stddef.h>

void *wi_malloc(size_t bytes);
void *wi_calloc(size_t count, size_t bytes);
void *wi_realloc(void *ptr, size_t bytes);
void *wi_aligned_alloc(size_t alignment, size_t bytes); /* bytes rounded up */
char *wi_strdup(const char *text);
void wi_free(void *ptr);

/* Fail the nth allocation from now on (1 = the next), once; 0: never. Process-wide. Returns allocations seen since the
 * last call. */
long wi_alloc_fail_nth(long n);

#endif
