/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a ds_config and its keys: comments and commas, places of errors, names that are nearest, every row of the table,
 * every key of DeepSpeed's, allocations that fail. */
#include "base/alloc.h"
#include "tests/zero/ds_common.h"
#include "zero/ds/ds.h"

#define MICRO "\"train_micro_batch_size_per_gpu\": 1"

static void comments_and_commas(void)
{
    static const char *const good[] = {
        "{" MICRO "}",
        "\xef\xbb\xbf{" MICRO "}",
        "// before\n{" MICRO ", # behind, \"}\n /* several\n * lines, \" */ \"steps_per_print\": 5,\n}\n// at the end",
        "{" MICRO ", \"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.5, 0.5, /* , */ ], }, }, }",
        "{" MICRO ", \"zero_optimization\": {\"offload_optimizer\": {\"nvme_path\": \"/a//b#c/*d*/ \\\" // ,}\"}}}",
        "{" MICRO "/**/}",
        "\t{\r\n" MICRO "\r\n}\r\n",
        "{\"train_micro_batch_size_per_gpu\": 1e0, \"wall_clock_breakdown\": \"True\", \"dump_state\": 1}",
        "{\"train\\u005fmicro_batch_size_per_gpu\": 1}",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        weft_zero_ds_config *c = wt_ds_read(good[i], 1);
        CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->micro_batches, 1);
        weft_zero_ds_config_free(c);
    }
    weft_zero_ds_config *c = wt_ds_read(good[4], 1);
    wt_ds_text_has(c, "zero_optimization.offload_optimizer.nvme_path", "\"/a//b#c/*d*/ \\\" // ,}\"");
    weft_zero_ds_config_free(c);
}

static void no_json(void)
{
    wt_ds_refused("", 1, "ds.json:1:1: no JSON");
    wt_ds_refused("// nothing", 1, "no JSON");
    wt_ds_refused("[1]", 1, "a configuration is an object");
    wt_ds_refused("7", 1, "a configuration is an object");
    wt_ds_refused("{\n  \"a\": [,]}", 1, "ds.json:2:9: no JSON");
    wt_ds_refused("{\"a\": [1,,]}", 1, "no JSON");
    wt_ds_refused("{,}", 1, "no JSON");
    wt_ds_refused("{\"a\": 1,,}", 1, "no JSON");
    wt_ds_refused("{\"a\",}", 1, "no JSON");
    wt_ds_refused("{\"a\":,}", 1, "no JSON");
    wt_ds_refused("{\"a\": 1} {}", 1, "no JSON");
    wt_ds_refused("{" MICRO ",\n\n /* never\n ends }", 1, "ds.json:3:2: the comment that begins here does not end");
    wt_ds_refused("{\"a\": \"b\nc\"}", 1, "no JSON");
    wt_ds_refused("{\"a\": NaN}", 1, "no JSON");
    wt_ds_refused("{\"a\": 1e999}", 1, "no JSON");
    wt_ds_refused("{\"a\": 99999999999999999999}", 1, "no JSON");
    wt_ds_refused("{/* \xc3\xa4 */ \"a\": x}", 1, "ds.json:1:15: no JSON");
    wt_ds_refused("{\n \"\xc3\xa4\": \"\xff\"}", 1, "ds.json:2:8: byte 0xff is not UTF-8");
    wt_ds_refused("{ \"\xed\xa0\x80\": 1}", 1, "ds.json:1:4: byte 0xed is not UTF-8");
    wt_ds_refused("{" MICRO ",\n  \"dump_state\": true,\n  \"dump_state\": false}", 1,
                  "ds.json:3:3: duplicate object key");
    wt_ds_refused("{" MICRO ", \"zero_optimization\": {\"stage\": 1,\n \"stage\": 2}}", 1,
                  "ds.json:2:2: duplicate object key near '\"stage\"'");
}

static void limits(void)
{
    char deep[256] = "{\"a\": ", *large;
    weft_zero_ds_config *c = NULL;

    memset(deep + 6, '[', 100);
    wt_ds_refused(deep, 1, "ds.json:1:38: objects and lists are nested too deep here");
    large = malloc(WI_DS_TEXT_MAX + 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, ' ', WI_DS_TEXT_MAX + 1);
    large[WI_DS_TEXT_MAX + 1] = '\0';
    memcpy(large, "{" MICRO "}", strlen("{" MICRO "}"));
    wt_ds_refused(large, 1, "more than 1048576 bytes");
    large[WI_DS_TEXT_MAX] = '\0';
    c = wt_ds_read(large, 1);
    weft_zero_ds_config_free(c);
    free(large);
    c = NULL;
    CU_ASSERT_EQUAL(weft_zero_ds_config_read(NULL, "a", 1, NULL, &c), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_ds_config_read("{}", NULL, 1, NULL, &c), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_ds_config_read("{}", "a", 1, NULL, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_ds_config_read("{}", "a", 0, NULL, &c), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_zero_ds_keys(NULL, NULL), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(c);
}

static void names(void)
{
    wt_ds_refused_with("\n  \"gradient_cliping\": 1",
                       "ds.json:2:3: gradient_cliping is no key of DeepSpeed's; the nearest is gradient_clipping");
    wt_ds_refused_with("\"zero_optimization\": {\"stagee\": 1}",
                       "zero_optimization.stagee is no key of DeepSpeed's; the nearest is zero_optimization.stage");
    wt_ds_refused_with("\"zero_optimization\": {\"stage3_gather_16bit_weight_on_model_save\": true}",
                       "the nearest is zero_optimization.stage3_gather_16bit_weights_on_model_save");
    wt_ds_refused_with("\"stage\": 1", "the nearest is zero_optimization.stage");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"weigth_decay\": 1}}",
                       "the nearest is optimizer.params.weight_decay");
    wt_ds_refused_with("\"a\\u001b[31m\\nb\": 1", "a [31m b is no key");
    /* Keys in values that are not looked into do not shift the places of those behind them. */
    wt_ds_refused_with(
        "\"expert_parallel\": {\"top_k\": {\"a\": [{\"b\": 1}, {\"b\": {\"c\": 2}}]}},\n \"dump_stat\": 1",
        "ds.json:2:2: dump_stat");
}

static void values(void)
{
    wt_ds_refused_with("\"dump_state\": \"maybe\"", "dump_state is \"maybe\", not a boolean");
    wt_ds_refused_with("\"dump_state\": 2", "dump_state is 2, not a boolean");
    wt_ds_refused_with("\"dump_state\": null", "dump_state is null, not a boolean");
    wt_ds_refused_with("\"steps_per_print\": 1.5", "steps_per_print is 1.5, not an integer or null");
    wt_ds_refused_with("\"steps_per_print\": 1e17", "not an integer");
    wt_ds_refused_with("\"steps_per_print\": 0", "steps_per_print is 0, and has to be at least 1");
    wt_ds_refused_with("\"gradient_clipping\": \"1\"", "gradient_clipping is \"1\", not a number");
    wt_ds_refused_with("\"gradient_clipping\": -1", "gradient_clipping is -1, and has to be at least 0");
    wt_ds_refused_with("\"gradient_clipping\": [1]", "gradient_clipping is a list, not a number");
    wt_ds_refused_with("\"gradient_allreduce_op\": \"max\"", "gradient_allreduce_op is \"max\", not one of mean|sum");
    wt_ds_refused_with("\"fp16\": true", "fp16 has to be an object, {...}");
    wt_ds_refused_with("\"optimizer\": 5", "optimizer has to be an object, {...}, or null");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": 1}}",
                       "optimizer.params.betas is 1, not a list of two numbers");
    wt_ds_refused_with("\"data_types\": {\"keep_in_fp32_modules\": []}, \"elasticity\": {\"enabled\": false}",
                       "elasticity is refused: DeepSpeed 0.19 has removed it, too.");
}

/* ---- Every row ---- */

/* A value of the row's type that is not its default. */
static const char *other_value(const struct wi_ds_key *key)
{
    static char text[96];
    const char *preset = key->fallback ? key->fallback : "";

    switch (key->type) {
    case WI_DS_BOOL:
        return strcmp(preset, "true") ? "true" : "false";
    case WI_DS_INT:
    case WI_DS_NUMBER:
        snprintf(text, sizeof(text), "%.17g",
                 atof(preset) == key->most ? key->least
                 : key->most < 1e8         ? key->most
                                           : atof(preset) + 1);
        return text;
    case WI_DS_WORD:
        snprintf(text, sizeof(text), "\"%.*s\"", (int)strcspn(key->words, "|"), key->words);
        if (!strcmp(text, preset))
            snprintf(text, sizeof(text), "\"%s\"", key->words + strcspn(key->words, "|") + 1);
        text[1 + strcspn(text + 1, "\"|")] = '"';
        text[2 + strcspn(text + 1, "\"|")] = '\0';
        return text;
    case WI_DS_TEXT:
        return strcmp(key->path, "optimizer.type") ? strcmp(key->path, "scheduler.type") ? "\"x\"" : "\"WarmupLR\""
                                                   : "\"Lion\"";
    case WI_DS_NUMBERS:
        return "[0.5]";
    case WI_DS_BETAS:
        return "[0.1, 0.2]";
    case WI_DS_OBJECT:
        return "{}";
    default:
        return "true";
    }
}

/* {"a": {"b": value}} of the path a.b, with what optimizers, schedulers and offloads need beside it. */
static void write_config(const struct wi_ds_key *key, const char *value, char *text, size_t capacity)
{
    char path[WI_DS_PATH_MAX], *part = path;
    int at, depth = 0,
            micro = strcmp(key->path, "train_micro_batch_size_per_gpu") && strcmp(key->path, "train_batch_size");
    const char *beside = "";

    snprintf(path, sizeof(path), "%s", key->path);
    at = snprintf(text, capacity, "{%s", micro ? MICRO ", " : "");
    for (char *dot = strchr(part, '.'); dot; part = dot + 1, dot = strchr(part, '.')) {
        char type[64] = "AdamW";
        *dot = '\0';
        if (key->only)
            snprintf(type, sizeof(type), "%.*s", (int)strcspn(key->only, "|"), key->only);
        else if (key->path[0] == 's')
            snprintf(type, sizeof(type), "WarmupLR");
        at += snprintf(text + at, capacity - (size_t)at, "\"%s\": {", strcmp(part, "*") ? part : "seqlen");
        if (!depth++ && (!strcmp(part, "optimizer") || !strcmp(part, "scheduler")) &&
            strcmp(wi_ds_name(key->path), "type"))
            at += snprintf(text + at, capacity - (size_t)at, "\"type\": \"%s\", ", type);
        if (!strcmp(part, "zero_optimization") && strcmp(key->path, "zero_optimization.stage"))
            at += snprintf(text + at, capacity - (size_t)at, "\"stage\": 3, ");
    }
    if (strstr(key->path, "scheduler.params.") && key->only) {
        if (!strcmp(key->only, "OneCycle"))
            beside = strstr(key->path, "cycle_min_lr") ? ", \"cycle_max_lr\": 1"
                                                       : ", \"cycle_max_lr\": 1, \"cycle_min_lr\": 0";
        if (strstr(key->path, "cycle_max_lr"))
            beside = ", \"cycle_min_lr\": 0";
        if (!strncmp(key->only, "WarmupCosineLR", 14) && strcmp(wi_ds_name(key->path), "total_num_steps"))
            beside = ", \"total_num_steps\": 10";
    }
    if (!strcmp(key->path, "optimizer.params.nesterov"))
        beside = ", \"momentum\": 0.5";
    if (!strcmp(key->path, "scheduler") || !strcmp(key->path, "optimizer"))
        value = key->path[0] == 's' ? "{\"type\": \"WarmupLR\"}" : "{\"type\": \"SGD\"}";
    at +=
        snprintf(text + at, capacity - (size_t)at, "\"%s\": %s%s", strcmp(part, "*") ? part : "seqlen", value, beside);
    while (depth-- >= 0)
        at += snprintf(text + at, capacity - (size_t)at, "}");
}

/* A warning that the key has no effect, or is an old spelling. */
static int is_warned(const weft_zero_ds_config *c, const struct wi_ds_key *key, const char *how)
{
    char wanted[512];

    snprintf(wanted, sizeof(wanted), "%s%s%s", key->path, how, key->what == WI_DS_RENAMED ? key->words : key->text);
    for (int i = 0; weft_zero_ds_config_warning(c, i); i++)
        if (strstr(weft_zero_ds_config_warning(c, i), wanted))
            return 1;
    return 0;
}

/* Sections that are off by default: nothing in them is warned about. */
static int in_section_that_is_off(const struct wi_ds_key *key)
{
    static const char *const sections[] = {"torch_autocast.", "autotuning.",      "flops_profiler.", "comms_logger.",
                                           "tensorboard.",    "wandb.",           "csv_monitor.",    "comet.",
                                           "hybrid_engine.",  "expert_parallel.", "data_efficiency."};

    for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++)
        if (!strncmp(key->path, sections[i], strlen(sections[i])))
            return 1;
    return 0;
}

static void row_is_refused(const struct wi_ds_key *key, const char *text)
{
    char why[512];

    snprintf(why, sizeof(why), " is refused%s%s: %s", key->fallback ? ", unless it is " : "",
             key->fallback ? key->fallback : "", key->text);
    wt_ds_refused(text, 1, why);
}

static void check_row(const struct wi_ds_key *key)
{
    char text[1024], wanted[256];
    const struct wi_ds_key *value_of = key->what == WI_DS_RENAMED ? wi_ds_key(wi_ds_row(key->words)) : key;
    weft_zero_ds_config *c;

    if (key->fallback) { /* the default is never warned about, unless the key has no effect whatsoever */
        write_config(key, key->fallback, text, sizeof(text));
        c = wt_ds_read(text, 1);
        CU_ASSERT_EQUAL(wt_ds_warnings(c), key->what == WI_DS_IGNORED && !in_section_that_is_off(key));
        weft_zero_ds_config_free(c);
    }
    write_config(key, other_value(value_of), text, sizeof(text));
    if (strstr(key->path, "zenflow.") || strstr(key->path, "weight_quantization.")) { /* their sections are refused */
        wt_ds_refused(text, 1, " is refused");
        return;
    }
    if (key->what == WI_DS_REFUSED) {
        row_is_refused(key, text);
        return;
    }
    c = wt_ds_read(text, 1);
    if (key->what == WI_DS_RENAMED)
        CU_ASSERT(is_warned(c, key, ": an old spelling of "));
    if (key->what == WI_DS_FIXED)
        CU_ASSERT(is_warned(c, key, " has no effect: "));
    if (key->what == WI_DS_IGNORED && key->type != WI_DS_OBJECT)
        CU_ASSERT_EQUAL(is_warned(c, key, " has no effect: "), !in_section_that_is_off(key));
    snprintf(wanted, sizeof(wanted), "%s has no effect", key->path);
    for (int i = 0; key->what == WI_DS_WORKS && weft_zero_ds_config_warning(c, i); i++)
        CU_ASSERT(!strstr(weft_zero_ds_config_warning(c, i), wanted) ||
                  !strcmp(key->path, "data_types.grad_accum_dtype"));
    weft_zero_ds_config_free(c);
}

static void every_row(void)
{
    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        unsigned before = CU_get_number_of_failures();
        CU_ASSERT_EQUAL(wi_ds_row(key->path), i); /* no path is there twice */
        CU_ASSERT(key->text && strlen(key->text) > 3 && key->text[strlen(key->text) - 1] == '.');
        if (key->what == WI_DS_RENAMED)
            CU_ASSERT(wi_ds_key(wi_ds_row(key->words))->what != WI_DS_RENAMED);
        check_row(key);
        if (CU_get_number_of_failures() != before)
            printf("# of %s\n", key->path);
    }
}

/* ---- DeepSpeed's keys ---- */

static int is_named(const char *name)
{
    for (size_t i = 0; i < wi_ds_nkeys(); i++)
        if (!strcmp(wi_ds_name(wi_ds_key(i)->path), name))
            return 1;
    return 0;
}

static int is_path(const char *path)
{
    for (size_t i = 0; i < wi_ds_nkeys(); i++)
        if (!strcmp(wi_ds_key(i)->path, path))
            return 1;
    return 0;
}

/* A type is accepted, or refused with a reason: it is none that nobody knows. */
static int is_type(const char *section, const char *type)
{
    char text[400];
    weft_zero_ds_config *c = NULL;
    weft_status st;

    snprintf(text, sizeof(text), "{" MICRO ", \"%s\": {\"type\": \"%s\"}}", section, type);
    st = weft_zero_ds_config_read(text, "ds.json", 1, NULL, &c);
    weft_zero_ds_config_free(c);
    return st == WEFT_SUCCESS || !strstr(wi_fail_text(), "is not known");
}

static void deepspeeds_keys(void)
{
    char path[4096], kind[64], word[192], line[256];
    const char *top = getenv("WEFT_SRCDIR");
    int lines = 0, missing = 0;

    snprintf(path, sizeof(path), "%s/tests/zero/deepspeed_keys.txt", top && *top ? top : ".");
    FILE *f = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof(line), f)) {
        if (*line == '#' || sscanf(line, "%63s %191s", kind, word) != 2)
            continue;
        lines++;
        if (!strcmp(kind, "key") ? is_path(word) : !strcmp(kind, "name") ? is_named(word) : is_type(kind, word))
            continue;
        printf("# the table lacks: %s", line);
        missing++;
    }
    fclose(f);
    CU_ASSERT(lines > 450);
    CU_ASSERT_EQUAL(missing, 0);
}

static int count_key(const weft_zero_ds_key *key, void *arg)
{
    int *n = arg;

    CU_ASSERT(key->bytes == sizeof(*key) && *key->path && *key->type && *key->effect && *key->meaning && key->range &&
              key->preset);
    if (!strcmp(key->path, "zero_optimization.stage")) {
        CU_ASSERT_STRING_EQUAL(key->type, "integer");
        CU_ASSERT_STRING_EQUAL(key->range, "0 to 3");
        CU_ASSERT_STRING_EQUAL(key->preset, "0");
        CU_ASSERT_STRING_EQUAL(key->effect, "works");
    }
    return ++*n == 10;
}

static int count_all(const weft_zero_ds_key *key, void *arg)
{
    (void)key;
    ++*(int *)arg;
    return 0;
}

static void visiting(void)
{
    int n = 0;

    CU_ASSERT_EQUAL(weft_zero_ds_keys(count_key, &n), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(n, 10);
    n = 0;
    CU_ASSERT_EQUAL(weft_zero_ds_keys(count_all, &n), WEFT_SUCCESS);
    CU_ASSERT_EQUAL((size_t)n, wi_ds_nkeys());
}

/* ---- Allocations ---- */

/* jansson's lexer (2.14) writes behind its buffer when it cannot grow it, so that what it allocates while it parses does not fail
 * here. All that comes behind the parser does: values that are made, the text that is written. */
static long jansson_calls, parser_calls;

static void *jansson_malloc(size_t bytes)
{
    return ++jansson_calls > parser_calls ? wi_malloc(bytes) : malloc(bytes);
}

static long count_parser_calls(const char *text)
{
    struct wi_ds_text read = {.root = NULL};

    jansson_calls = 0;
    CU_ASSERT_EQUAL_FATAL(wi_ds_text_read(text, "ds.json", &read), WEFT_SUCCESS);
    wi_ds_text_free(&read);
    return jansson_calls;
}

/* Each allocation fails once: no memory is what is said, nothing is returned or lost. */
static void each_allocation(const char *text)
{
    weft_status st = WEFT_ENOMEM;
    long n = 0;

    parser_calls = count_parser_calls(text);
    CU_ASSERT(parser_calls > 4);
    while (st != WEFT_SUCCESS && ++n < 100000) {
        weft_zero_ds_config *c = NULL;
        jansson_calls = 0;
        wi_alloc_fail_nth(n);
        st = weft_zero_ds_config_read(text, "ds.json", 1, NULL, &c);
        wi_alloc_fail_nth(0);
        if (st != WEFT_SUCCESS && (st != WEFT_ENOMEM || c)) {
            printf("# allocation %ld: %s: %s\n", n, weft_status_name(st), wi_fail_text());
            CU_FAIL("a failed allocation is said to be something else");
        }
        weft_zero_ds_config_free(c);
    }
    CU_ASSERT(n > 50 && n < 100000);
}

static void allocations(void)
{
    json_set_alloc_funcs(jansson_malloc, wi_free);
    each_allocation("{" MICRO ", \"zero_optimization\": true, // comment\n}");
    each_allocation(
        "{" MICRO ", \"optimizer\": {\"type\": \"adam\", \"params\": {\"betas\": [0.5, 0.6], \"lr\": 1, }, },"
        "\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": [0.1, 0.2], \"cycle_max_lr\": 1}},"
        "\"zero_optimization\": {\"cpu_offload\": true, \"stage\": 3, \"reduce_bucket_size\": 5e8,"
        "\"stage3_max_reuse_distance\": \"auto\"}, \"prescale_gradients\": true, \"sequence_parallel_size\": 1,"
        "\"communication_data_type\": \"BF16\"}");
    json_set_alloc_funcs(malloc, free);
}

static const struct wt_case cases[] = {
    {"comments and trailing commas", comments_and_commas},
    {"what is no JSON, and where", no_json},
    {"limits, and arguments", limits},
    {"names that are not known", names},
    {"values of another type or range", values},
    {"every row of the table", every_row},
    {"every key of DeepSpeed is in the table", deepspeeds_keys},
    {"the table is visited", visiting},
    {"each allocation fails once", allocations},
};
WT_UNIT_MAIN("ds_text", cases)
