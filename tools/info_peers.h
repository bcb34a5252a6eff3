/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-info --peers: what each rank of a job has told rank 0 of its transports, and how it reaches the others. */
#ifndef INFO_PEERS_H
#define INFO_PEERS_H

#include <jansson.h>
#include <weft/weft.h>

#define PEERS_TRANSPORTS_MAX 8

/* Of one transport and a pair, as one of the two ranks sees it. */
enum { PEERS_REACHES = 1, PEERS_USED = 2 };

struct peers_transport {
    const char *name;
    int priority, memory;
    unsigned char *has;   /* [nranks] */
    unsigned char *route; /* [nranks * nranks] PEERS_* as the first of the two ranks sees it */
};

struct peers {
    int nranks, nnodes, ntransports;
    json_t **rank;    /* [nranks] what they said */
    int *node;        /* [nranks] */
    struct peers_transport transport[PEERS_TRANSPORTS_MAX];
};

/* Names of hosts and files are bytes, of anybody who can make one. */
json_t *info_string(const char *text);
/* Control characters must neither forge a line nor move the cursor. */
void info_print(const char *text);

/* Collective. `peers` is filled on rank 0 only, and freed with peers_free there. 0; else it was said what failed. */
int peers_gather(weft_context *context, weft_comm *comm, struct peers *peers);
void peers_free(struct peers *peers);
/* The transport of a pair: an index; -1: none. */
int peers_used(const struct peers *p, int a, int b);
/* Why a rank is without a transport. */
const char *peers_why_without(const struct peers *p, int rank, const char *transport);
const char *peers_host(const struct peers *p, int rank);

/* Pairs that the same transport serves, while the same ones are left out for the same reasons. */
struct peers_group {
    int used;                /* the transport */
    char left_out[512];
    long long pairs, inside; /* all of them; those of one node */
    int a, b;                /* the first */
    int lacked;              /* a transport that one of the two has, in every pair; -1: none */
    unsigned char *in;       /* [nranks] the rank is in one of the pairs */
};
/* 0 when there is no memory for them. */
int peers_groups(const struct peers *p, struct peers_group **groups, int *ngroups);
void peers_groups_free(struct peers_group *groups, int ngroups);
/* Ranks for which in[] is 1: "ranks 0-3,8". */
void peers_ranks(const unsigned char *in, int n, char *text, size_t capacity);
/* Whose pairs these are, in words: "between a and b". */
void peers_whose(const struct peers *p, const struct peers_group *g, char *text, size_t capacity);

/* 0: there is no memory. */
int peers_print(const struct peers *p, const struct peers_group *groups, int ngroups);
json_t *peers_json(const struct peers *p, const struct peers_group *groups, int ngroups);

#endif
