/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI-1 as MPICH's hydra uses it: lines of "key=value" over an inherited descriptor. Used once per process, to publish
 * where rank 0 listens. */
#ifndef WI_NET_PMI_H
#define WI_NET_PMI_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_PMI_LINE_MAX 2048
#define WI_PMI_VALUE_MAX 1024

struct wi_pmi {
    int fd;
    char kvs[256];
    char line[WI_PMI_LINE_MAX];
    size_t line_bytes;
    uint64_t deadline_ns;
};

/* Values have no spaces. Every call is bounded by the deadline given to init. */
weft_status wi_pmi_init(struct wi_pmi *pmi, int fd, uint64_t deadline_ns);
weft_status wi_pmi_put(struct wi_pmi *pmi, const char *key, const char *value);
weft_status wi_pmi_get(struct wi_pmi *pmi, const char *key, char *value, size_t capacity);
weft_status wi_pmi_barrier(struct wi_pmi *pmi);

#endif
