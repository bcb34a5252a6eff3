/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry: rows that modules have read, with the value that won and where it came from. */
#include "base/settings.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/reduce.h"
#include "base/settings_given.h"
#include "base/status.h"

#define NAME_BYTES 192

union setting_value {
    int boolean;
    int64_t integer;
    size_t bytes;
    uint64_t ns;
    const char *string;
};

/* Immutable once linked, so that visitors need no lock. */
struct setting_known {
    _Atomic(struct setting_known *) next;
    const char *value;         /* text, of the registry; NULL: a string without a default */
    const char *default_value; /* text, copied */
    const char *help;          /* copied */
    enum weft_setting_type type;
    int must_equal;        /* WEFT_SETTING_EQUAL */
    const char *transport; /* the module, of a transport's; NULL: all ranks have it */
    enum wi_origin origin;
    union setting_value parsed;
    char name[]; /* complete; default_value and help follow */
};

struct wi_settings {
    struct wi_given_list given; /* fixed after creation */
    char *file;
    pthread_mutex_t lock; /* held while appending to known */
    _Atomic(struct setting_known *) first;
    struct setting_known *last;
};

static const char *const origin_names[] = {"default", "file", "environment", "call"};

/* What base itself needs, and what only says where to look for the rest. */
struct base_values {
    const char *isa;
    const char *config_file;
};
static const struct weft_setting base_table[] = {
    {"ISA", "auto", WEFT_SETTING_WORD, offsetof(struct base_values, isa), 0, 0,
     "Instruction set of the reduction kernels: auto, avx512, avx2, neon or scalar."},
    {"CONFIG_FILE", "", WEFT_SETTING_STRING, offsetof(struct base_values, config_file), 0, 0,
     "Path of a file of NAME = value lines, read when the program names none."},
    {NULL, NULL, WEFT_SETTING_STRING, 0, 0, 0, NULL},
};

static enum weft_setting_type row_type(const struct weft_setting *row)
{
    return (enum weft_setting_type)(row->type & ~(WEFT_SETTING_EQUAL | WEFT_SETTING_POWER_OF_TWO));
}

static int type_is_text(enum weft_setting_type type)
{
    return type == WEFT_SETTING_STRING || type == WEFT_SETTING_WORD;
}

/* A program with more rights than its caller (set-uid, file capabilities) takes files, code and descriptors from its own calls and
 * file only, as the loader ignores LD_PRELOAD there. */
static int row_may_come_from(const struct weft_setting *row, enum wi_origin origin)
{
    if (origin != WI_ORIGIN_ENVIRONMENT || (row_type(row) != WEFT_SETTING_STRING && row_type(row) != WEFT_SETTING_FD))
        return 1;
    return getauxval(AT_SECURE) == 0;
}

/* 0: no such type. */
static size_t type_bytes(enum weft_setting_type type)
{
    switch (type) {
    case WEFT_SETTING_BOOL:
        return sizeof(int);
    case WEFT_SETTING_INT:
    case WEFT_SETTING_FD:
        return sizeof(int64_t);
    case WEFT_SETTING_BYTES:
        return sizeof(size_t);
    case WEFT_SETTING_TIME:
        return sizeof(uint64_t);
    case WEFT_SETTING_STRING:
    case WEFT_SETTING_WORD:
        return sizeof(const char *);
    }
    return 0;
}

static int row_is_power_of_two(const struct weft_setting *row, const union setting_value *value)
{
    uint64_t n = row_type(row) == WEFT_SETTING_BYTES ? value->bytes : (uint64_t)value->integer;

    return n && !(n & (n - 1));
}

static int row_in_range(const struct weft_setting *row, const union setting_value *value)
{
    enum weft_setting_type type = row_type(row);
    uint64_t magnitude;

    if (row->type & WEFT_SETTING_POWER_OF_TWO && !row_is_power_of_two(row, value))
        return 0;
    if (row->min >= row->max)
        return 1;
    if (type == WEFT_SETTING_INT || type == WEFT_SETTING_FD)
        return value->integer >= row->min && value->integer <= row->max;
    if (type != WEFT_SETTING_BYTES && type != WEFT_SETTING_TIME)
        return 1;
    magnitude = type == WEFT_SETTING_BYTES ? value->bytes : value->ns;
    if (magnitude > INT64_MAX)
        return row->max == INT64_MAX;
    return (int64_t)magnitude >= row->min && (int64_t)magnitude <= row->max;
}

static int row_parse(const struct weft_setting *row, const char *text, union setting_value *value)
{
    memset(value, 0, sizeof(*value));
    if (type_is_text(row_type(row))) {
        value->string = text;
        return 0;
    }
    if (!text)
        return -1;
    switch (row_type(row)) {
    case WEFT_SETTING_BOOL:
        return wi_parse_bool(text, &value->boolean);
    case WEFT_SETTING_INT:
    case WEFT_SETTING_FD:
        return wi_parse_int(text, &value->integer);
    case WEFT_SETTING_BYTES:
        return wi_parse_bytes(text, &value->bytes);
    case WEFT_SETTING_TIME:
        return wi_parse_time(text, &value->ns);
    default:
        return -1;
    }
}

/* As users write them: 64K. */
static void bytes_print(char *out, size_t capacity, int64_t bytes)
{
    int unit = 0;

    for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(out, capacity, "%" PRId64 "%.1s", bytes, &"\0KMGT"[unit]);
}

static void time_print(char *out, size_t capacity, int64_t ns)
{
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{60000000000, "min"}, {1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (ns % units[i].ns == 0 && (ns >= units[i].ns || units[i].ns == 1)) {
            snprintf(out, capacity, "%" PRId64 "%s", ns / units[i].ns, units[i].unit);
            return;
        }
    }
}

/* "a size such as 64K, from 1 to 100" */
static void row_expected(const struct weft_setting *row, char *out, size_t capacity)
{
    static const char *const kinds[] = {"yes or no",
                                        "an integer",
                                        "a size such as 64K",
                                        "a time such as 500us, 2s, 5min or inf",
                                        "text",
                                        "text",
                                        "the number of an open descriptor"};
    char low[32], high[32];
    int length = snprintf(out, capacity, "%s%s", kinds[row_type(row)],
                          row->type & WEFT_SETTING_POWER_OF_TWO ? ", a power of two" : "");

    if (row->min >= row->max || row_type(row) == WEFT_SETTING_BOOL || type_is_text(row_type(row)))
        return;
    if (row_type(row) == WEFT_SETTING_TIME) {
        time_print(low, sizeof(low), row->min);
        time_print(high, sizeof(high), row->max);
    } else if (row_type(row) == WEFT_SETTING_BYTES) {
        bytes_print(low, sizeof(low), row->min);
        bytes_print(high, sizeof(high), row->max);
    } else {
        snprintf(low, sizeof(low), "%" PRId64, row->min);
        snprintf(high, sizeof(high), "%" PRId64, row->max);
    }
    if (row->max == INT64_MAX)
        snprintf(out + length, capacity - (size_t)length, ", at least %s", low);
    else
        snprintf(out + length, capacity - (size_t)length, ", from %s to %s", low, high);
}

static void name_build(char *out, const char *module, const char *name)
{
    snprintf(out, NAME_BYTES, "WEFT_%s%s%s", module, *module ? "_" : "", name);
}

/* The text that wins for `name`, or the default. */
static const char *row_text(const struct wi_settings *settings, const struct weft_setting *row, const char *name,
                            enum wi_origin *origin, int *line)
{
    for (int o = WI_ORIGIN_CALL; o > WI_ORIGIN_DEFAULT; o--) {
        const struct wi_given *given = wi_given_find(&settings->given, name, (enum wi_origin)o);

        if (given && row_may_come_from(row, given->origin)) {
            *origin = given->origin;
            *line = given->line;
            return given->value;
        }
    }
    *origin = WI_ORIGIN_DEFAULT;
    *line = 0;
    return row->default_value;
}

static weft_status row_refuse(const struct wi_settings *settings, const struct weft_setting *row, const char *name,
                              const char *text, enum wi_origin origin, int line)
{
    char expected[128], where[32] = "";

    row_expected(row, expected, sizeof(expected));
    if (origin == WI_ORIGIN_DEFAULT)
        return wi_fail(WEFT_EINTERNAL, "%s: default \"%s\" is not %s", name, text ? text : "(null)", expected);
    if (line)
        snprintf(where, sizeof(where), ", line %d", line);
    return wi_fail(WEFT_ECONFIG, "%s=\"%.64s\" (%s%s%s%s): expected %s", name, text, origin_names[origin],
                   line ? " " : "", line ? settings->file : "", where, expected);
}

static struct setting_known *known_find(const struct wi_settings *settings, const char *name)
{
    struct setting_known *known = atomic_load_explicit(&settings->first, memory_order_acquire);

    while (known && strcmp(known->name, name) != 0)
        known = atomic_load_explicit(&known->next, memory_order_acquire);
    return known;
}

static char *append_text(char **room, const char *text)
{
    char *start = *room;

    if (!text)
        return NULL;
    strcpy(start, text);
    *room += strlen(text) + 1;
    return start;
}

/* Called with the lock held. Everything is copied: a table may belong to a plugin that is unloaded later. */
static struct setting_known *known_add(struct wi_settings *settings, const struct weft_setting *row, const char *name,
                                       const char *transport, const char *text, enum wi_origin origin,
                                       const union setting_value *parsed)
{
    size_t bytes = sizeof(struct setting_known) + strlen(name) + 1 + (transport ? strlen(transport) + 1 : 0);
    struct setting_known *known;
    char *room;

    bytes += row->default_value ? strlen(row->default_value) + 1 : 0;
    bytes += row->help ? strlen(row->help) + 1 : 0;
    known = wi_malloc(bytes);
    if (!known)
        return NULL;
    room = known->name;
    append_text(&room, name);
    known->transport = append_text(&room, transport);
    known->default_value = append_text(&room, row->default_value);
    known->help = append_text(&room, row->help);
    known->type = row_type(row);
    known->must_equal = (row->type & WEFT_SETTING_EQUAL) != 0;
    known->origin = origin;
    known->value = origin == WI_ORIGIN_DEFAULT ? known->default_value : text;
    known->parsed = *parsed;
    if (type_is_text(row_type(row)))
        known->parsed.string = known->value;
    atomic_init(&known->next, NULL);
    if (settings->last)
        atomic_store_explicit(&settings->last->next, known, memory_order_release);
    else
        atomic_store_explicit(&settings->first, known, memory_order_release);
    settings->last = known;
    return known;
}

static weft_status row_read(struct wi_settings *settings, const char *module, int of_transport,
                            const struct weft_setting *row, union setting_value *value)
{
    const struct setting_known *known;
    enum wi_origin origin;
    char name[NAME_BYTES];
    const char *text;
    int line;

    name_build(name, module, row->name);
    if (!type_bytes(row_type(row)))
        return wi_fail(WEFT_EPLUGIN,
                       "setting %s is of a type that this library does not know (%#x): use a newer libweft", name,
                       row->type);
    text = row_text(settings, row, name, &origin, &line);
    if (row_parse(row, text, value) || !row_in_range(row, value))
        return row_refuse(settings, row, name, text, origin, line);
    pthread_mutex_lock(&settings->lock);
    known = known_find(settings, name);
    if (!known)
        known = known_add(settings, row, name, of_transport ? module : NULL, text, origin, value);
    pthread_mutex_unlock(&settings->lock);
    if (!known)
        return wi_fail(WEFT_ENOMEM, "settings: out of memory");
    if (type_is_text(row_type(row)) && type_is_text(known->type))
        value->string = known->value;
    return WEFT_SUCCESS;
}

static weft_status table_read(struct wi_settings *settings, const char *module, int of_transport,
                              const struct weft_setting *table, void *values)
{
    union setting_value value;

    for (const struct weft_setting *row = table; row->name; row++)
        WI_TRY(row_read(settings, module, of_transport, row, &value));
    /* Nothing is stored before every row is known to be good. */
    for (const struct weft_setting *row = table; row->name; row++) {
        WI_TRY(row_read(settings, module, of_transport, row, &value));
        memcpy((char *)values + row->offset, &value, type_bytes(row_type(row)));
    }
    return WEFT_SUCCESS;
}

weft_status wi_settings_read(struct wi_settings *settings, const char *module, const struct weft_setting *table,
                             void *values)
{
    return table_read(settings, module, 0, table, values);
}

weft_status wi_settings_read_transport(struct wi_settings *settings, const char *module,
                                       const struct weft_setting *table, void *values)
{
    return table_read(settings, module, 1, table, values);
}

/* WEFT_ISA acts on the process; only a value that was given is looked at, not the default. */
static weft_status settings_apply_base(struct wi_settings *settings)
{
    struct base_values values;

    WI_TRY(wi_settings_read(settings, "", base_table, &values));
    if (known_find(settings, "WEFT_ISA")->origin == WI_ORIGIN_DEFAULT)
        return WEFT_SUCCESS;
    if (wi_isa_force(strcmp(values.isa, "auto") == 0 ? NULL : values.isa))
        return wi_fail(WEFT_ECONFIG,
                       "WEFT_ISA=\"%.32s\": unknown, or not on this CPU; expected auto, avx512, avx2, "
                       "neon or scalar (best here: %s)",
                       values.isa, wi_isa_name());
    return WEFT_SUCCESS;
}

static weft_status settings_collect(struct wi_settings *settings, const char *file, const char *const *calls)
{
    if (file) {
        settings->file = wi_strdup(file);
        if (!settings->file)
            return wi_fail(WEFT_ENOMEM, "settings: out of memory");
        WI_TRY(wi_given_read_file(&settings->given, file));
    }
    WI_TRY(wi_given_read_environment(&settings->given));
    WI_TRY(wi_given_read_calls(&settings->given, calls));
    return settings_apply_base(settings);
}

weft_status wi_settings_create(const char *file, const char *const *calls, struct wi_settings **settings)
{
    struct wi_settings *made = wi_calloc(1, sizeof(*made));
    weft_status status;

    if (!made)
        return wi_fail(WEFT_ENOMEM, "settings: out of memory");
    pthread_mutex_init(&made->lock, NULL);
    status = settings_collect(made, file, calls);
    if (status < 0) {
        wi_settings_destroy(made);
        return status;
    }
    *settings = made;
    return WEFT_SUCCESS;
}

void wi_settings_destroy(struct wi_settings *settings)
{
    struct setting_known *known, *next;

    if (!settings)
        return;
    for (known = atomic_load(&settings->first); known; known = next) {
        next = atomic_load(&known->next);
        wi_free(known);
    }
    wi_given_free(&settings->given);
    pthread_mutex_destroy(&settings->lock);
    wi_free(settings->file);
    wi_free(settings);
}

void wi_settings_visit(struct wi_settings *settings, weft_setting_fn fn, void *arg)
{
    struct setting_known *known = atomic_load_explicit(&settings->first, memory_order_acquire);

    for (; known; known = atomic_load_explicit(&known->next, memory_order_acquire))
        fn(arg, known->name, known->value, known->default_value, origin_names[known->origin], known->help);
}

/* Levenshtein, one row at a time; both names are shorter than NAME_BYTES. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[NAME_BYTES + 1];
    size_t columns = strlen(b);

    for (size_t j = 0; j <= columns; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[columns];
}

int wi_setting_lacks_word(const char *name, const char *known)
{
    const char *behind = strncmp(known, "WEFT_", 5) == 0 ? strchr(known + 5, '_') : NULL;

    return behind && strncmp(name, "WEFT_", 5) == 0 && strcmp(name + 5, behind + 1) == 0;
}

/* A suggestion farther away than a third of the name would only mislead, and so would one of several that lack a word. */
static const char *name_nearest(const struct wi_settings *settings, const char *name)
{
    struct setting_known *known = atomic_load_explicit(&settings->first, memory_order_acquire);
    unsigned best = (unsigned)(strlen(name) - 5) / 3 + 2;
    const char *nearest = NULL, *longer = NULL;
    int nlonger = 0;

    for (; known; known = atomic_load_explicit(&known->next, memory_order_acquire)) {
        unsigned distance = edit_distance(name, known->name);

        if (wi_setting_lacks_word(name, known->name)) {
            longer = known->name;
            nlonger++;
        }
        if (distance < best) {
            best = distance;
            nearest = known->name;
        }
    }
    return nlonger == 1 ? longer : nearest;
}

/* Libraries that are built on this one, whose settings it leaves to them. */
static const char *const client_modules[] = {"ZERO"};

static int is_of_module(const char *name, const char *module)
{
    size_t bytes = strlen(module);

    return strncmp(name, "WEFT_", 5) == 0 && strncmp(name + 5, module, bytes) == 0 && name[5 + bytes] == '_';
}

static int is_of_client(const char *name)
{
    for (size_t i = 0; i < sizeof(client_modules) / sizeof(client_modules[0]); i++)
        if (is_of_module(name, client_modules[i]))
            return 1;
    return 0;
}

/* `module`: of those that begin as its names do; NULL: of those that begin as no client's do. */
static int check_unknown(struct wi_settings *settings, const char *module)
{
    int unknown = 0;

    for (const struct wi_given *g = settings->given.first; g; g = g->next) {
        const char *nearest;

        if (known_find(settings, g->name) || (module ? !is_of_module(g->name, module) : is_of_client(g->name)))
            continue;
        unknown++;
        nearest = name_nearest(settings, g->name);
        wi_log(WEFT_LOG_WARN, "settings.unknown", "%s (%s) is not a setting%s%s%s", g->name, origin_names[g->origin],
               nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    }
    return unknown;
}

int wi_settings_check_unknown(struct wi_settings *settings)
{
    return check_unknown(settings, NULL);
}

weft_status wi_settings_read_client(struct wi_settings *settings, const char *module, const struct weft_setting *table,
                                    void *values)
{
    size_t i = 0;

    while (i < sizeof(client_modules) / sizeof(client_modules[0]) && strcmp(module, client_modules[i]) != 0)
        i++;
    if (i == sizeof(client_modules) / sizeof(client_modules[0]))
        return wi_fail(WEFT_EINVAL, "settings: \"%.32s\" is no module of a library that is built on weft", module);
    for (const struct weft_setting *row = table; row->name; row++)
        if (row->type & WEFT_SETTING_EQUAL)
            return wi_fail(
                WEFT_EINVAL,
                "settings: WEFT_%s_%s must be equal on all ranks, which communicators cannot compare any more", module,
                row->name);
    WI_TRY(table_read(settings, module, 0, table, values));
    check_unknown(settings, module);
    return WEFT_SUCCESS;
}

const char *wi_settings_key_near(const char *name)
{
    static const char *const settings[] = {"WEFT_JOB_KEY", "WEFT_JOB_KEY_FILE", "WEFT_JOB_KEY_FD", "WEFT_REQUIRE_KEY",
                                           "WEFT_INSECURE"};
    char upper[NAME_BYTES];
    const char *nearest = NULL;
    size_t bytes = strlen(name);

    if (bytes >= sizeof(upper) || bytes < 5)
        return NULL;
    for (size_t i = 0; i <= bytes; i++)
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    unsigned best = strstr(upper, "KEY") ? NAME_BYTES : (unsigned)(bytes - 5) / 3 + 2;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        unsigned distance = edit_distance(upper, settings[i]);

        if (distance < best) {
            best = distance;
            nearest = settings[i];
        }
    }
    return nearest;
}

int wi_settings_key_misspelt(const struct wi_settings *settings, char *text, size_t capacity)
{
    for (const struct wi_given *g = settings->given.first; g; g = g->next) {
        const char *meant = known_find(settings, g->name) ? NULL : wi_settings_key_near(g->name);

        if (meant) {
            snprintf(text, capacity, "%s (%s) is not a setting; did you mean %s?", g->name, origin_names[g->origin],
                     meant);
            return 1;
        }
    }
    return 0;
}

static uint64_t known_hash(const struct setting_known *known)
{
    uint64_t seed = wi_hash64(known->name, strlen(known->name), 0);

    if (!type_is_text(known->type))
        return wi_hash64(&known->parsed, type_bytes(known->type), seed);
    return known->value ? wi_hash64(known->value, strlen(known->value), seed) : seed;
}

static int is_compared(const struct setting_known *known, const char *transport)
{
    if (!known->must_equal || !known->transport != !transport)
        return 0;
    return !transport || strcmp(known->transport, transport) == 0;
}

/* A sum, so that the order in which modules read does not matter; of parsed values, so that 64K equals 65536. */
uint64_t wi_settings_hash(const struct wi_settings *settings, const char *transport)
{
    struct setting_known *known = atomic_load_explicit(&settings->first, memory_order_acquire);
    uint64_t sum = 0;

    for (; known; known = atomic_load_explicit(&known->next, memory_order_acquire)) {
        if (is_compared(known, transport))
            sum += known_hash(known);
    }
    return sum;
}

void wi_settings_equal_names(const struct wi_settings *settings, const char *transport, char *text, size_t capacity)
{
    struct setting_known *known = atomic_load_explicit(&settings->first, memory_order_acquire);
    size_t bytes = 0;

    text[0] = '\0';
    for (; known && bytes < capacity; known = atomic_load_explicit(&known->next, memory_order_acquire)) {
        if (is_compared(known, transport))
            bytes += (size_t)snprintf(text + bytes, capacity - bytes, "%s%s", bytes ? ", " : "", known->name);
    }
}
