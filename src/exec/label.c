/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/label.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "exec/exec.h"

/* A power of two, more than the recorder has entries. A new one takes the place of another with its low bits. */
#define LABELS 1024

struct wi_label {
    uint32_t hash; /* 0: none */
    char text[WI_LABEL_BYTES];
};

uint32_t wi_label_hash(const char *label)
{
    return (uint32_t)wi_hash64(label, strlen(label), LABELS) | 1;
}

/* The lowest bit of a hash says nothing. */
static struct wi_label *place_of(const struct wi_exec *exec, uint32_t hash)
{
    return &exec->labels[hash >> 1 & (LABELS - 1)];
}

void wi_label_keep(struct wi_exec *exec, uint32_t hash, const char *text)
{
    struct wi_label *label;

    if (!exec->labels)
        exec->labels = wi_calloc(LABELS, sizeof *exec->labels);
    if (!exec->labels)
        return;
    label = place_of(exec, hash);
    if (label->hash == hash)
        return;
    label->hash = hash;
    snprintf(label->text, sizeof label->text, "%s", text);
    wi_text_sanitize(label->text, sizeof label->text);
}

const char *wi_label_text(const struct wi_exec *exec, uint32_t hash)
{
    const struct wi_label *label = hash && exec->labels ? place_of(exec, hash) : NULL;

    return label && label->hash == hash ? label->text : NULL;
}

void wi_labels_free(struct wi_exec *exec)
{
    wi_free(exec->labels);
    exec->labels = NULL;
}
