/* The suite of collectives: its cases, run for every fixture and number of ranks by collectives.c (a sample, in a minute)
 * and collectives_long.c (the whole product).
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef CC_COLLECTIVES_H
#define CC_COLLECTIVES_H

#include "tests/conform/collect.h"

/* What one job of ranks does; `full` is the long tier's. */
struct cc_job {
    const struct cc_fixture *fixture;
    int full;
    unsigned long calls, refused; /* of rank 0, where ranks are threads */
};

void cc_case_forms(int rank, int nranks, void *job);
void cc_case_types(int rank, int nranks, void *job);
void cc_case_algorithms(int rank, int nranks, void *job);
void cc_case_operators(int rank, int nranks, void *job);
void cc_case_memory(int rank, int nranks, void *job);
void cc_case_copy_paths(int rank, int nranks, void *job);
void cc_case_bits(int rank, int nranks, void *job);
void cc_case_levels(int rank, int nranks, void *job);

/* Run all cases; the number of failures. */
int cc_suite(const char *name, int full, int argc, char **argv);

#endif
