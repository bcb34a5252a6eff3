/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that read the text of a schedule share. */
#ifndef WI_SCHED_PARSE_H
#define WI_SCHED_PARSE_H

#include "sched/internal.h"

#define WI_PARSE_WORD_BYTES 64

struct wi_parser {
    const char *at, *end; /* what is left */
    const char *line_end;
    uint32_t line;
    char word[WI_PARSE_WORD_BYTES]; /* the newest; "" at the end of the line */
    struct wi_sched_builder *builder;
    uint32_t nlanes, lane_steps;
    uint32_t *lines; /* of lanes and steps in file order */
    uint32_t nlines, line_capacity;
    struct wi_region *operands; /* 2 * WI_SCHED_MAX_OPERANDS: destinations, then sources */
    int ll;                     /* as the head says */
};

/* ---- parse_words.c ---- */
weft_status wi_parse_bad(const struct wi_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int wi_parse_next_line(struct wi_parser *p); /* go to the next line that says something; 0 when there is none */
weft_status wi_parse_next_word(struct wi_parser *p);
const char *wi_parse_shown(const struct wi_parser *p); /* the word, for a message */
weft_status wi_parse_expect(struct wi_parser *p, const char *word);
weft_status wi_parse_line_end(struct wi_parser *p);
/* Digits from *text on, at most max, no leading zero; moves *text past them. 0 or -1. */
int wi_parse_digits(const char **text, uint32_t max, uint32_t *value);
weft_status wi_parse_word_number(const struct wi_parser *p, const char *what, uint32_t max, uint32_t *value);
weft_status wi_parse_number(struct wi_parser *p, const char *what, uint32_t max, uint32_t *value);
weft_status wi_parse_named_number(struct wi_parser *p, const char *name, uint32_t max, uint32_t *value);

/* ---- parse.c: a schedule inside the text, from "coll" to a line that says `end` alone ---- */
weft_status wi_parse_inner(struct wi_parser *p, const char *end, struct wi_sched **sched);

/* ---- parse_stage.c: what follows the lanes of `sched`, to "end"; the line of "slots" has been begun ---- */
weft_status wi_parse_stages(struct wi_parser *p, struct wi_sched *sched);

#endif
