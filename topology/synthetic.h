/* SPDX-License-Identifier: BSD-3-Clause */
/* A synthetic description, parsed. doc/guide/topology.md has the grammar. */
#ifndef WI_TOPOLOGY_SYNTHETIC_H
#define WI_TOPOLOGY_SYNTHETIC_H

#include <weft/weft.h>

#define WI_SYNTHETIC_LIST 1024
#define WI_SYNTHETIC_COUNT 65536

/* Forms of a word: flags of what may follow its name. */
#define WI_SYNTHETIC_COUNTS 1 /* a count, :N */
#define WI_SYNTHETIC_EACH 2   /* or one for each node (rack: for each rack), :A+B+C */
#define WI_SYNTHETIC_RATED 4  /* then @RATE */
#define WI_SYNTHETIC_RATE 8   /* :RATE */
#define WI_SYNTHETIC_NUMBER 16

/* X(name, form, least count, count when absent) */
#define WI_SYNTHETIC_WORDS(X)                                                                                          \
    X(nodes, WI_SYNTHETIC_COUNTS, 1, 1)                                                                                \
    X(rack, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_EACH, 1, 0)                                                             \
    X(pack, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_RATED, 1, 1)                                                            \
    X(numa, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_RATED, 1, 1)                                                            \
    X(cache, WI_SYNTHETIC_COUNTS, 0, 1)                                                                                \
    X(core, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_EACH, 0, 1)                                                             \
    X(gpu, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_EACH, 0, 0)                                                              \
    X(nic, WI_SYNTHETIC_COUNTS | WI_SYNTHETIC_EACH | WI_SYNTHETIC_RATED, 0, 0)                                         \
    X(pcisw, WI_SYNTHETIC_COUNTS, 0, 0)                                                                                \
    X(pci, WI_SYNTHETIC_RATE, 0, 0)                                                                                    \
    X(nvlink, WI_SYNTHETIC_RATE, 0, 0)                                                                                 \
    X(nvmesh, WI_SYNTHETIC_RATE, 0, 0)                                                                                 \
    X(nvdomain, WI_SYNTHETIC_COUNTS, 1, 1)                                                                             \
    X(rails, 0, 0, 0)                                                                                                  \
    X(oversub, WI_SYNTHETIC_NUMBER, 0, 0)                                                                              \
    X(latency, WI_SYNTHETIC_NUMBER, 0, 0)

struct wi_synthetic_word {
    int given;
    int n; /* entries of count[]: 1, or one for each node or rack */
    double rate; /* or number; 0: not given */
    int32_t count[WI_SYNTHETIC_LIST];
};

struct wi_synthetic {
#define WI_SYNTHETIC_MEMBER(name, form, least, absent) struct wi_synthetic_word name;
    WI_SYNTHETIC_WORDS(WI_SYNTHETIC_MEMBER)
#undef WI_SYNTHETIC_MEMBER
};

/* Words that contradict each other are refused, too. */
weft_status wi_synthetic_parse(const char *text, struct wi_synthetic *parsed);

#endif
