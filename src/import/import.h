/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms written elsewhere: MSCCL XML, MSCCL++ plan JSON, and weft's own schedule text, as one sealed schedule per rank.
 * What comes back has passed wi_sched_check; anything else is refused with a text that names the file, the place in it
 * (line, or path) and the rule. Files are not trusted: everything is bounded before it is used. doc/guide/import.md says
 * what of each format can be expressed. */
#ifndef WI_SCHED_IMPORT_H
#define WI_SCHED_IMPORT_H

#include "sched/sched.h"

enum wi_import_format { WI_IMPORT_MSCCL, WI_IMPORT_MSCCLPP, WI_IMPORT_TEXT };

#define WI_IMPORT_MAX_BYTES (8u << 20) /* of a file */
#define WI_IMPORT_MAX_RANKS 1024
#define WI_IMPORT_MAX_STEPS (1u << 19) /* of all ranks */

struct wi_import {
    enum wi_import_format format;
    char name[64]; /* the algorithm's: as the file says, in characters that a name may have */
    uint64_t hash; /* of the file's bytes */
    enum wi_coll coll;
    int nranks, root, in_place;
    uint64_t min_bytes, max_bytes; /* sizes that it is meant for, as the file says; 0 and UINT64_MAX */
    struct wi_sched **scheds;      /* [nranks] */
    /* Of a file that serves calls in place and others: the second program, for calls in place, or why there is only one. NULL and
     * "": the file serves one kind of calls, or has a root. */
    struct wi_import *in_place_variant;
    char variant_refused[512];
};

const char *wi_import_format_name(enum wi_import_format format);
/* `name` is the file's, for texts. The format is recognised by the first character: '<', '{', or neither. */
weft_status wi_import_text(const char *name, const char *text, size_t bytes, struct wi_import **import);
/* Several files: weft's own texts may come one rank per file. WEFT_ECONFIG when a file cannot be read. */
weft_status wi_import_files(const char *const paths[], int npaths, struct wi_import **import);
void wi_import_free(struct wi_import *import);

#endif
