/* SPDX-License-Identifier: BSD-3-Clause */
/* DeepSpeed's ds_config: text, table of keys, values as read, meaning. weft_zero_config.h is the public side.
 *
 *     ds_text.c         comments and trailing commas go, jansson parses; where each key stands in the text
 *     ds_keys*.c        the table: one row for each key that DeepSpeed 0.19 knows
 *     ds_read.c         a walk over the parsed text: every key is looked up, its value kept in its row's slot
 *     ds_value.c        the value of one key: type, range, normal form, "auto"
 *     ds_optimizer.c    types of optimizers and schedulers, their parameters
 *     ds_config.c       what the values mean together: batch sizes, precision, struct weft_zero_config
 *     ds_config_text.c  all values as one JSON text */
#ifndef WI_ZERO_DS_H
#define WI_ZERO_DS_H

#include <jansson.h>
#include <stddef.h>
#include <weft/weft_zero_config.h>

#define WI_DS_TEXT_MAX (1u << 20) /* bytes; ten thousand times what is usual */
#define WI_DS_DEPTH_MAX 32
#define WI_DS_PATH_MAX 192 /* bytes of "a.b.c" */

/* ---- The table ---- */

enum wi_ds_type {
    WI_DS_BOOL,    /* true, false; as pydantic, also 0, 1, "true", "false" */
    WI_DS_INT,     /* 500000000 or 5e8 */
    WI_DS_NUMBER,
    WI_DS_TEXT,
    WI_DS_WORD,    /* one of `words`, in any case */
    WI_DS_NUMBERS, /* a number, or a list of them: one for each group of parameters */
    WI_DS_BETAS,   /* two numbers */
    WI_DS_ANY,
    WI_DS_OBJECT,  /* has rows of its own */
};

enum wi_ds_what {
    WI_DS_WORKS,
    WI_DS_FIXED,   /* weft always does what the default says; another value is warned about */
    WI_DS_IGNORED, /* known, has no effect, warned about */
    WI_DS_REFUSED, /* unless the value is the default, which means "off" */
    WI_DS_RENAMED, /* an old spelling of `words`, warned about */
};

/* What "auto" means. Of keys without one it is the default. */
enum wi_ds_auto {
    WI_DS_AUTO_DEFAULT,
    WI_DS_AUTO_TRAIN_BATCH,
    WI_DS_AUTO_MICRO_BATCH,
    WI_DS_AUTO_ACCUMULATION,
    WI_DS_AUTO_CLIP,
    WI_DS_AUTO_FP16,
    WI_DS_AUTO_BF16,
    WI_DS_AUTO_LR,
    WI_DS_AUTO_ZERO,
    WI_DS_AUTO_BETAS,
    WI_DS_AUTO_EPS,
    WI_DS_AUTO_DECAY,
    WI_DS_AUTO_WARMUP,
    WI_DS_AUTO_TOTAL,
    WI_DS_AUTO_HIDDEN_SQUARE,       /* hidden size squared */
    WI_DS_AUTO_HIDDEN_SQUARE_TENTH, /* nine tenths of it */
    WI_DS_AUTO_HIDDEN_TEN,          /* ten times the hidden size */
};

struct wi_ds_key {
    const char *path;     /* "zero_optimization.stage"; a part "*" is any name */
    const char *fallback; /* the default as JSON; NULL: none */
    const char *words;    /* WI_DS_WORD: "a|b"; WI_DS_RENAMED: the path of today */
    const char *only;     /* NULL, or types of optimizer or scheduler that have this parameter: "adam|adamw" */
    const char *text;     /* one sentence: what it does, or why it does nothing or is refused */
    double least, most;   /* of numbers; above says that least itself is out */
    enum wi_ds_type type;
    enum wi_ds_what what;
    enum wi_ds_auto automatic;
    unsigned char null, above; /* null is a value; of an object: nothing of it is filled in when it is absent */
};

size_t wi_ds_nkeys(void);
const struct wi_ds_key *wi_ds_key(size_t row);
/* The row of the key `name` in the object `parent` ("" at the top), or -1. */
int wi_ds_find(const char *parent, const char *name);
/* The row of a path that is in the table. */
size_t wi_ds_row(const char *path);
/* The row whose name is nearest to one that is not in the table: in the same object, or anywhere if it is spelt the same there. */
const struct wi_ds_key *wi_ds_nearest(const char *parent, const char *name);
/* The last part of a path. */
const char *wi_ds_name(const char *path);
/* Whether `word` is among "a|b|c", in any case; its canonical spelling and length. */
const char *wi_ds_word_in(const char *words, const char *word, size_t *bytes);

/* The two parts that it is made of. */
extern const struct wi_ds_key wi_ds_keys_used[], wi_ds_keys_other[];
extern const size_t wi_ds_nkeys_used, wi_ds_nkeys_other;

/* ---- The text ---- */

struct wi_ds_place {
    unsigned line, column;
};

struct wi_ds_text {
    json_t *root;
    struct wi_ds_place *keys; /* of all keys, in the order of the text */
    size_t nkeys;
};
weft_status wi_ds_text_read(const char *text, const char *name, struct wi_ds_text *read);
void wi_ds_text_free(struct wi_ds_text *read);

/* ---- The values ---- */

struct wi_ds_value {
    json_t *json; /* owned, in its normal form; NULL: neither given nor a default */
    struct wi_ds_place at;
    unsigned char given, automatic; /* automatic: "auto", which nothing was known for */
};

struct wi_ds_warning {
    struct wi_ds_place at;
    char *text;
};

struct weft_zero_ds_config {
    char *name;
    struct wi_ds_value *values; /* one for each row */
    weft_zero_ds_model model;
    int nranks;
    weft_zero_config engine;
    weft_zero_hyper hyper[2]; /* of what optimizer.type updates; of the other parameters beside Muon, else the same */
    weft_dtype dtype;
    char gather_codec[48], reduce_codec[48];
    char *text;
    struct wi_ds_warning *warnings; /* in the order of the text */
    size_t nwarnings;
};

/* WEFT_EINVAL with the text "name:line:column: ...". */
weft_status wi_ds_bad(const weft_zero_ds_config *c, struct wi_ds_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
weft_status wi_ds_warn(weft_zero_ds_config *c, struct wi_ds_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
weft_status wi_ds_no_memory(const weft_zero_ds_config *c);

/* Every key of the text to its slot, then every default; then warnings about keys without effect. */
weft_status wi_ds_walk(weft_zero_ds_config *c, const struct wi_ds_text *text);
weft_status wi_ds_warn_all(weft_zero_ds_config *c);
/* Normal form of a value for its row; WEFT_EINVAL with a text where it is none. `path` is what the text calls it. */
weft_status wi_ds_convert(weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path, struct wi_ds_place at, json_t *in,
                          json_t **out);
/* The row's default in that form, or NULL; WEFT_ENOMEM. */
weft_status wi_ds_preset(weft_zero_ds_config *c, const struct wi_ds_key *key, json_t **out);
/* "0 to 3", "at least 1", "a|b"; "" where there is no range. And the type in words. */
void wi_ds_range(const struct wi_ds_key *key, char *text, size_t capacity);
const char *wi_ds_type_name(enum wi_ds_type type);
/* What "auto" means for a row; *out NULL: not known. */
weft_status wi_ds_automatic(weft_zero_ds_config *c, const struct wi_ds_key *key, struct wi_ds_place at, json_t **out);
/* The field of weft_zero_ds_model that it comes from. */
const char *wi_ds_auto_field(enum wi_ds_auto which);

/* Values by path; a default counts. The path is in the table, and has a value of the type. */
struct wi_ds_value *wi_ds_value(const weft_zero_ds_config *c, const char *path);
int wi_ds_has(const weft_zero_ds_config *c, const char *path); /* there, and not null */
int wi_ds_true(const weft_zero_ds_config *c, const char *path);
double wi_ds_number(const weft_zero_ds_config *c, const char *path);
const char *wi_ds_string(const weft_zero_ds_config *c, const char *path);
/* Takes `json`, which may be NULL: out of memory. */
weft_status wi_ds_set(weft_zero_ds_config *c, const char *path, json_t *json);
void wi_ds_value_clear(struct wi_ds_value *value);

/* A type that is refused is said so before its parameters are looked at. `section` is "optimizer" or "scheduler". */
weft_status wi_ds_type_check(const weft_zero_ds_config *c, const char *section, struct wi_ds_place at, const json_t *object);
/* Whether the optimizer or scheduler has this parameter; of other keys, yes. */
int wi_ds_applies(const weft_zero_ds_config *c, const struct wi_ds_key *key);
weft_status wi_ds_optimizer(weft_zero_ds_config *c);
weft_status wi_ds_scheduler(weft_zero_ds_config *c);
weft_status wi_ds_meaning(weft_zero_ds_config *c);
weft_status wi_ds_write(weft_zero_ds_config *c);

#endif
