/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines and words of the text of a schedule. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/status.h"
#include "sched/parse.h"

weft_status wi_parse_bad(const struct wi_parser *p, const char *format, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return wi_fail(WEFT_EINVAL, "schedule text line %u: %s", p->line, text);
}

/* ---- Lines and words ---- */

static int is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r';
}

static void skip_blanks(struct wi_parser *p)
{
    while (p->at < p->line_end && is_blank(*p->at))
        p->at++;
}

/* Go to the next line that says something; 0 when there is none. */
int wi_parse_next_line(struct wi_parser *p)
{
    if (p->line)
        p->at = p->line_end < p->end ? p->line_end + 1 : p->end;
    while (p->at < p->end) {
        const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
        p->line_end = nl ? nl : p->end;
        p->line++;
        skip_blanks(p);
        if (p->at < p->line_end && *p->at != '#')
            return 1;
        p->at = nl ? nl + 1 : p->end;
    }
    p->line++;
    p->line_end = p->end;
    return 0;
}

weft_status wi_parse_next_word(struct wi_parser *p)
{
    size_t n = 0;

    skip_blanks(p);
    while (p->at < p->line_end && !is_blank(*p->at)) {
        unsigned char ch = (unsigned char)*p->at++;
        if (!isgraph(ch) || ch > 126)
            return wi_parse_bad(p, "byte %#x in a word", ch);
        if (n == WI_PARSE_WORD_BYTES - 1)
            return wi_parse_bad(p, "a word of more than %d characters", WI_PARSE_WORD_BYTES - 1);
        p->word[n++] = (char)ch;
    }
    p->word[n] = '\0';
    return WEFT_SUCCESS;
}

const char *wi_parse_shown(const struct wi_parser *p)
{
    return p->word[0] ? p->word : "the end of the line";
}

weft_status wi_parse_expect(struct wi_parser *p, const char *word)
{
    WI_TRY(wi_parse_next_word(p));
    if (strcmp(p->word, word))
        return wi_parse_bad(p, "\"%s\" expected, found %s", word, wi_parse_shown(p));
    return WEFT_SUCCESS;
}

weft_status wi_parse_line_end(struct wi_parser *p)
{
    WI_TRY(wi_parse_next_word(p));
    return p->word[0] ? wi_parse_bad(p, "%s is too much", p->word) : WEFT_SUCCESS;
}

/* Digits from *text on, at most max, no leading zero; moves *text past them. 0 or -1. */
int wi_parse_digits(const char **text, uint32_t max, uint32_t *value)
{
    const char *s = *text;
    uint64_t v = 0;

    if (!isdigit((unsigned char)*s) || (*s == '0' && isdigit((unsigned char)s[1])))
        return -1;
    for (; isdigit((unsigned char)*s); s++) {
        v = v * 10 + (uint64_t)(*s - '0');
        if (v > max)
            return -1;
    }
    *text = s;
    *value = (uint32_t)v;
    return 0;
}

weft_status wi_parse_word_number(const struct wi_parser *p, const char *what, uint32_t max, uint32_t *value)
{
    const char *s = p->word;

    if (wi_parse_digits(&s, max, value) || *s)
        return wi_parse_bad(p, "%s must be a number from 0 to %u, found %s", what, max, wi_parse_shown(p));
    return WEFT_SUCCESS;
}

weft_status wi_parse_number(struct wi_parser *p, const char *what, uint32_t max, uint32_t *value)
{
    WI_TRY(wi_parse_next_word(p));
    return wi_parse_word_number(p, what, max, value);
}

weft_status wi_parse_named_number(struct wi_parser *p, const char *name, uint32_t max, uint32_t *value)
{
    WI_TRY(wi_parse_expect(p, name));
    return wi_parse_number(p, name, max, value);
}
