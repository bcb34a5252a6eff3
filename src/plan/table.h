/* SPDX-License-Identifier: BSD-3-Clause */
/* Tuning tables: what weft-tune measured, as text that people can read (weft-tune(1) describes it). A table holds sections, one
 * for each distribution of ranks over nodes; a communicator uses the section with its own distribution. Tables are as untrusted as
 * any file: bounded, and every error names line and word. */
#ifndef WI_PLAN_TABLE_H
#define WI_PLAN_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "algo/algo.h"
#include "base/rates.h"
#include "plan/link_params.h"

#define WI_TABLE_FORMAT 1
#define WI_TABLE_MAX_BYTES (16u << 20)
#define WI_TABLE_MAX_POINTS 20000u
#define WI_TABLE_MAX_SECTIONS 64
#define WI_TABLE_MAX_NAMES 512
#define WI_TABLE_MAX_HOSTS 4096
#define WI_TABLE_MAX_MAP 256 /* characters */

struct wi_table_point {
    uint64_t bytes;
    float measured_us, predicted_us; /* predicted: before it was measured; 0: not */
    float noise;                     /* one standard error of measured_us, as a share; 0: not known */
    float chosen_us;                 /* by a communicator that chose it itself, measured beside it; 0: none did */
    uint16_t algo;                   /* in names */
    uint16_t section;
    uint8_t coll;                    /* enum wi_coll */
    uint8_t shared;                  /* buffers from weft_mem_alloc */
};

struct wi_table_link {
    int section, from, to;
    double us, rate; /* half a round trip; bytes per us */
};

struct wi_table_section {
    int nranks, nnodes;
    char map[WI_TABLE_MAX_MAP]; /* runs of ranks per node: "0x2+1x2" */
    uint8_t has[WI_PLAN_NUM_LINK_PARAMS];
    struct wi_plan_link_params params;
    struct wi_rates rates; /* of the slowest rank's core, while all ranks measured */
};

struct wi_plan_table {
    char version[32], made[40], machine[160];
    uint64_t hash; /* of the file's contents */
    int nsections, nnames, nhosts, nlinks;
    uint32_t npoints;
    struct wi_table_section *sections;
    char (*names)[WI_ALGO_SPEC_BYTES];
    char (*hosts)[64];
    struct wi_table_link *links;
    struct wi_table_point *points;
    size_t cap_sections, cap_names, cap_hosts, cap_links, cap_points;
};

/* Begin an empty table. */
weft_status wi_plan_table_create(const char *machine, struct wi_plan_table **table);
/* `name` of the file, for messages. */
weft_status wi_plan_table_parse(const char *text, size_t bytes, const char *name, struct wi_plan_table **table);
weft_status wi_plan_table_load(const char *path, struct wi_plan_table **table);
void wi_plan_table_free(struct wi_plan_table *table);
weft_status wi_plan_table_write(const struct wi_plan_table *table, FILE *out);
/* To a file next to `path`, which then takes its place. */
weft_status wi_plan_table_save(const struct wi_plan_table *table, const char *path);

/* Building. Equal things are found, not added twice; a point measured again takes the new value. */
weft_status wi_plan_table_host(struct wi_plan_table *table, const char *host);
weft_status wi_plan_table_section(struct wi_plan_table *table, int nranks, int nnodes, const char *map, int *section);
weft_status wi_plan_table_param(struct wi_plan_table *table, int section, const char *name, double value);
/* Where the section keeps a rate, by names: "sum", "float" or "copy", "bytes". */
weft_status wi_plan_table_rate(struct wi_plan_table *table, int section, const char *op, const char *dtype,
                               float (**rate)[WI_RATE_PLACES]);
/* Of the section, if it says so; else NULL. */
const double *wi_plan_section_param(const struct wi_table_section *section, const char *name);
weft_status wi_plan_table_link(struct wi_plan_table *table, const struct wi_table_link *link);
weft_status wi_plan_table_point(struct wi_plan_table *table, const struct wi_table_point *point, const char *algo);
/* Number of the point, or UINT32_MAX. */
uint32_t wi_plan_table_find(const struct wi_plan_table *table, int section, enum wi_coll coll, uint64_t bytes,
                            int shared, const char *algo);

/* Was it made on this kind of machine? WEFT_ECONFIG: the text says what differs. */
weft_status wi_plan_table_check(const struct wi_plan_table *table, const char *name, const char *machine);
/* Architecture, number of processors, model: "x86_64, 2 processors, AMD EPYC 7B13". */
void wi_plan_machine(char *text, size_t capacity);
/* How ranks are spread over nodes, as runs: "0x2+1x2"; "" when that is too long to write. */
void wi_plan_map(const int32_t *node_of, int nranks, char *map, size_t capacity);
/* The section of ranks spread like this, or -1. */
int wi_plan_table_match(const struct wi_plan_table *table, int nranks, int nnodes, const char *map);

#endif
