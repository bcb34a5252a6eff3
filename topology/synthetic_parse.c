/* SPDX-License-Identifier: BSD-3-Clause */
/* "nodes:4 pack:2 core:8 gpu:4 nvlink:450 nic:2@400Gb": words between blanks, in any order, each at most once; from # to the
 * end of the line is a comment. A wrong word is quoted with its line. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topology/synthetic.h"

#define WORD_MAX 64

static const struct row {
    const char *name;
    size_t offset;
    int form, least, absent;
} rows[] = {
#define ROW(name, form, least, absent) {#name, offsetof(struct wi_synthetic, name), form, least, absent},
    WI_SYNTHETIC_WORDS(ROW)
#undef ROW
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

struct place {
    int line;
    const char *word; /* quoted in errors */
};

static weft_status refuse(const struct place *p, const char *why)
{
    return wi_fail(WEFT_ECONFIG, "topology: line %d: \"%s\": %s", p->line, p->word, why);
}

/* Decimal, without sign or exponent. Returns where it ends, or NULL. */
static const char *parse_number(const char *text, double *number)
{
    size_t digits = strspn(text, "0123456789."), whole = strspn(text, "0123456789");
    char copy[24];

    if (!digits || whole == 0 || digits >= sizeof(copy) ||
        (whole < digits && strspn(text + whole + 1, "0123456789") != digits - whole - 1))
        return NULL;
    memcpy(copy, text, digits);
    copy[digits] = '\0';
    *number = strtod(copy, NULL);
    return text + digits;
}

/* NUMBER [k|M|G|T] [b|bit|bps|B|B/s]; G where no prefix stands. Without b or B: bits if plain_bits, else bytes. */
static weft_status parse_rate(const struct place *p, const char *text, int plain_bits, double *rate)
{
    static const char prefixes[] = "kMGT";
    double scale = 1e3, number;
    const char *unit = parse_number(text, &number), *prefix;

    if (!unit)
        return refuse(p, "a rate is wanted, like 400Gb or 50GB");
    if (*unit && (prefix = strchr(prefixes, *unit))) {
        static const double scales[] = {1e-3, 1, 1e3, 1e6};
        scale = scales[prefix - prefixes];
        unit++;
    }
    int bits = plain_bits;
    if (!strcmp(unit, "b") || !strcmp(unit, "bit") || !strcmp(unit, "bps") || !strcmp(unit, "bit/s"))
        bits = 1;
    else if (!strcmp(unit, "B") || !strcmp(unit, "B/s"))
        bits = 0;
    else if (*unit)
        return refuse(p, "the unit of a rate is k, M, G or T and b (bits) or B (bytes)");
    *rate = number * scale / (bits ? 8 : 1);
    if (*rate < 1e-3 || *rate > 1e9)
        return refuse(p, "a rate is 1 kB/s to 1 PB/s");
    return WEFT_SUCCESS;
}

/* N or, where a list may stand, A+B+C. */
static weft_status parse_counts(const struct place *p, const struct row *row, const char *text, size_t length,
                                struct wi_synthetic_word *word)
{
    const char *end = text + length;

    for (word->n = 0;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 6 || text + digits > end)
            return refuse(p, row->form & WI_SYNTHETIC_EACH ? "a count is wanted, or one for each node, like 3+1+4"
                                                           : "a count is wanted");
        long count = strtol(text, NULL, 10);
        if (count < row->least || count > WI_SYNTHETIC_COUNT)
            return refuse(p, row->least ? "a count is 1 to 65536" : "a count is 0 to 65536");
        if (word->n == WI_SYNTHETIC_LIST)
            return refuse(p, "a list has at most 1024 counts");
        word->count[word->n++] = (int32_t)count;
        text += digits;
        if (text == end)
            return WEFT_SUCCESS;
        if (*text != '+' || !(row->form & WI_SYNTHETIC_EACH))
            return refuse(p, "a count is followed by nothing else");
    }
}

static weft_status parse_value(const struct place *p, const struct row *row, const char *value,
                               struct wi_synthetic_word *word)
{
    if (!row->form)
        return value ? refuse(p, "this word takes no value") : WEFT_SUCCESS;
    if (!value || !*value)
        return refuse(p, "a value is wanted after a colon");
    if (row->form == WI_SYNTHETIC_RATE)
        return parse_rate(p, value, 0, &word->rate);
    if (row->form == WI_SYNTHETIC_NUMBER) {
        const char *end = parse_number(value, &word->rate);
        if (!end || (*end && strcmp(end, "us")))
            return refuse(p, "a number is wanted");
        return word->rate > 0 && word->rate <= 1e6 ? WEFT_SUCCESS : refuse(p, "a number above 0 is wanted");
    }
    const char *at = strchr(value, '@');
    if (at && !(row->form & WI_SYNTHETIC_RATED))
        return refuse(p, "no rate can be given here");
    WI_TRY(parse_counts(p, row, value, at ? (size_t)(at - value) : strlen(value), word));
    return at ? parse_rate(p, at + 1, !strcmp(row->name, "nic"), &word->rate) : WEFT_SUCCESS;
}

static weft_status parse_word(const struct place *p, char *text, struct wi_synthetic *s)
{
    char name[WORD_MAX + 1];
    size_t length = strcspn(text, ":");

    memcpy(name, text, length);
    name[length] = '\0';
    for (size_t i = 0; i < NROWS; i++) {
        struct wi_synthetic_word *word = (void *)((char *)s + rows[i].offset);
        if (strcmp(rows[i].name, name))
            continue;
        if (word->given)
            return refuse(p, "this word stands twice");
        word->given = 1;
        return parse_value(p, &rows[i], text[length] ? text + length + 1 : NULL, word);
    }
    return refuse(p,
                  "no such word; there are nodes, rack, pack, numa, cache, core, gpu, nic, pcisw, pci, nvlink, nvmesh, "
                  "nvdomain, rails, oversub, latency");
}

/* The longest list says how many nodes there are, if nothing else does. */
static weft_status agree_on_nodes(struct wi_synthetic *s)
{
    const struct wi_synthetic_word *lists[] = {&s->core, &s->gpu, &s->nic};
    static const char *const names[] = {"core", "gpu", "nic"};
    int64_t in_racks = 0;

    for (int i = 0; i < 3; i++)
        if (lists[i]->n > 1 && !s->nodes.given) {
            s->nodes.count[0] = lists[i]->n;
            s->nodes.given = 1;
        }
    for (int r = 0; s->rack.n > 1 && r < s->rack.n; r++)
        in_racks += s->rack.count[r];
    if (s->rack.n > 1 && !s->nodes.given && in_racks <= WI_SYNTHETIC_COUNT) {
        s->nodes.count[0] = (int32_t)in_racks;
        s->nodes.given = 1;
    }
    int nodes = s->nodes.count[0];
    for (int i = 0; i < 3; i++)
        if (lists[i]->n > 1 && lists[i]->n != nodes)
            return wi_fail(WEFT_ECONFIG, "topology: %s has %d counts for %d nodes", names[i], lists[i]->n, nodes);
    if (s->rack.n > 1 && in_racks != nodes)
        return wi_fail(WEFT_ECONFIG, "topology: the racks hold %lld nodes, there are %d", (long long)in_racks, nodes);
    if (s->rack.n == 1 && s->rack.count[0] > nodes)
        return wi_fail(WEFT_ECONFIG, "topology: %d racks for %d nodes", s->rack.count[0], nodes);
    return WEFT_SUCCESS;
}

static weft_status check_words(struct wi_synthetic *s)
{
    int gpus = 0, cores = 0;

    for (size_t i = 0; i < NROWS; i++) {
        struct wi_synthetic_word *word = (void *)((char *)s + rows[i].offset);
        if (!word->given) {
            word->n = 1;
            word->count[0] = rows[i].absent;
        }
    }
    if (!s->rack.given)
        s->rack.n = 0;
    WI_TRY(agree_on_nodes(s));
    for (int i = 0; i < s->gpu.n; i++)
        gpus |= s->gpu.count[i] > 0;
    for (int i = 0; i < s->core.n; i++)
        cores |= s->core.count[i] > 0;
    if (!gpus && !cores)
        return wi_fail(WEFT_ECONFIG, "topology: there are neither cores nor GPUs");
    if (s->nvlink.given && s->nvmesh.given)
        return wi_fail(WEFT_ECONFIG, "topology: nvlink (through a switch) and nvmesh (each pair) exclude each other");
    if ((s->nvlink.given || s->nvmesh.given) && !gpus)
        return wi_fail(WEFT_ECONFIG, "topology: NVLink joins GPUs, but there are none");
    if (s->nvdomain.given && !s->nvlink.given)
        return wi_fail(WEFT_ECONFIG,
                       "topology: nvdomain says how many nodes share an NVLink switch; nvlink is missing");
    if (s->oversub.given && !s->rack.given)
        return wi_fail(WEFT_ECONFIG, "topology: oversub is about the switches of racks; rack is missing");
    if (s->rails.given && s->rack.given)
        return wi_fail(WEFT_ECONFIG, "topology: rails and rack exclude each other");
    return WEFT_SUCCESS;
}

weft_status wi_synthetic_parse(const char *text, struct wi_synthetic *s)
{
    char word[WORD_MAX * 256];
    struct place p = {1, word};

    memset(s, 0, sizeof(*s));
    for (;;) {
        size_t blanks = strspn(text, " \t\r\n"), length;
        for (size_t i = 0; i < blanks; i++)
            p.line += text[i] == '\n';
        text += blanks;
        if (!*text)
            return check_words(s);
        if (*text == '#') {
            text += strcspn(text, "\n");
            continue;
        }
        length = strcspn(text, " \t\r\n");
        size_t kept = length < sizeof(word) ? length : WORD_MAX;
        memcpy(word, text, kept);
        word[kept] = '\0';
        for (char *c = word; *c; c++)
            if (*c < ' ' || *c > '~')
                *c = '?';
        if (length != kept || strcspn(word, ":") > WORD_MAX)
            return word[WORD_MAX] = '\0', refuse(&p, "this word is too long");
        WI_TRY(parse_word(&p, word, s));
        text += length;
    }
}
