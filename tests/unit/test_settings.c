/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: parsers, precedence, files, unknown names. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "unit.h"

struct values {
    int on;
    int64_t count;
    size_t chunk;
    uint64_t wait;
    const char *label;
    const char *nothing;
};
static const struct weft_setting table[] = {
    {"ON", "y", WEFT_SETTING_BOOL, offsetof(struct values, on), 0, 0, "Whether."},
    {"COUNT", "4", WEFT_SETTING_INT, offsetof(struct values, count), 1, 64, "How many."},
    {"CHUNK", "64K", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, offsetof(struct values, chunk), 1024, 1 << 30, "Bytes."},
    {"WAIT", "2s", WEFT_SETTING_TIME, offsetof(struct values, wait), 1000, 60000000000, "Time."},
    {"LABEL", "none", WEFT_SETTING_STRING | WEFT_SETTING_EQUAL, offsetof(struct values, label), 0, 0, "Text."},
    {"NOTHING", NULL, WEFT_SETTING_STRING, offsetof(struct values, nothing), 0, 0, "Text."},
    {NULL, NULL, WEFT_SETTING_INT, 0, 0, 0, NULL},
};

static char file_path[64];

static void file_write(const char *text, size_t bytes)
{
    int fd;

    strcpy(file_path, "/tmp/weft-test-conf-XXXXXX");
    fd = mkstemp(file_path);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
}

static struct wi_settings *create(const char *file, const char *const *calls)
{
    struct wi_settings *settings = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_settings_create(file, calls, &settings), WEFT_SUCCESS);
    return settings;
}

static void parsers(void)
{
    static const struct {
        const char *text;
        int ok;
        uint64_t value;
    } bytes[] = {{"0", 1, 0},
                 {"100", 1, 100},
                 {"64K", 1, 65536},
                 {"1m", 1, 1 << 20},
                 {" 2 GiB ", 1, 2ull << 30},
                 {"3kb", 1, 3072},
                 {"7B", 1, 7},
                 {"18446744073709551615", 1, UINT64_MAX},
                 {"18446744073709551616", 0, 0},
                 {"16777216T", 0, 0},
                 {"", 0, 0},
                 {"K", 0, 0},
                 {"-1", 0, 0},
                 {"1.5K", 0, 0},
                 {"1X", 0, 0},
                 {"1 K B", 0, 0},
                 {"1kilobytes", 0, 0}},
      times[] = {{"500us", 1, 500000},
                 {"2s", 1, 2000000000},
                 {"5min", 1, 300000000000},
                 {"7", 1, 7000000000},
                 {"0.25", 1, 250000000},
                 {"1.5 ms", 1, 1500000},
                 {"3ns", 1, 3},
                 {"1h", 1, 3600000000000},
                 {"inf", 1, UINT64_MAX},
                 {" INF ", 1, UINT64_MAX},
                 {"0", 1, 0},
                 {"0.0000000019", 1, 1},
                 {"infinite", 0, 0},
                 {"1.", 0, 0},
                 {".5", 0, 0},
                 {"-1", 0, 0},
                 {"", 0, 0},
                 {"18446744074", 0, 0},
                 {"6000000h", 0, 0},
                 {"1d", 0, 0}};
    static const struct {
        const char *text;
        int ok;
        int64_t value;
    } ints[] = {{"12", 1, 12},
                {"-7", 1, -7},
                {"+3", 1, 3},
                {"0x1F", 1, 31},
                {"010", 1, 10},
                {"9223372036854775807", 1, INT64_MAX},
                {"-9223372036854775808", 1, INT64_MIN},
                {"9223372036854775808", 0, 0},
                {"-9223372036854775809", 0, 0},
                {"", 0, 0},
                {"-", 0, 0},
                {"0x", 0, 0},
                {"1 2", 0, 0},
                {"3a", 0, 0}},
      bools[] = {{"y", 1, 1}, {"Yes", 1, 1}, {"on", 1, 1},    {"TRUE", 1, 1},  {"1", 1, 1},
                 {"n", 1, 0}, {"no", 1, 0},  {"off", 1, 0},   {"false", 1, 0}, {"0", 1, 0},
                 {"", 0, 0},  {"2", 0, 0},   {"maybe", 0, 0}, {"y n", 0, 0}};

    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        size_t v = 99;

        CU_ASSERT_EQUAL(wi_parse_bytes(bytes[i].text, &v), bytes[i].ok - 1);
        CU_ASSERT_EQUAL(v, bytes[i].ok ? bytes[i].value : 99);
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint64_t v = 99;

        CU_ASSERT_EQUAL(wi_parse_time(times[i].text, &v), times[i].ok - 1);
        CU_ASSERT_EQUAL(v, times[i].ok ? times[i].value : 99);
    }
    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
        int64_t v = 99;

        CU_ASSERT_EQUAL(wi_parse_int(ints[i].text, &v), ints[i].ok - 1);
        CU_ASSERT_EQUAL(v, ints[i].ok ? ints[i].value : 99);
    }
    for (size_t i = 0; i < sizeof(bools) / sizeof(bools[0]); i++) {
        int v = 99;

        CU_ASSERT_EQUAL(wi_parse_bool(bools[i].text, &v), bools[i].ok - 1);
        CU_ASSERT_EQUAL(v, bools[i].ok ? bools[i].value : 99);
    }
}

static void remember_origin(void *arg, const char *name, const char *value, const char *default_value,
                            const char *origin, const char *help)
{
    char *out = arg;

    CU_ASSERT_PTR_NOT_NULL(help);
    (void)default_value;
    if (strncmp(name, "WEFT_T_", 7) == 0)
        sprintf(out + strlen(out), "%s=%s(%s) ", name + 7, value ? value : "-", origin);
}

/* The test run says with WEFT_* variables where things are. */
static void forget_test_environment(void)
{
    for (char **entry = environ; *entry;) {
        char name[128];
        size_t bytes = strcspn(*entry, "=");
        if (strncmp(*entry, "WEFT_", 5) != 0 || bytes >= sizeof name) {
            entry++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)bytes, *entry);
        unsetenv(name); /* the next one takes its place */
    }
}

static void precedence(void)
{
    static const char text[] = "# a comment\n\nT_COUNT = 5\n  WEFT_T_CHUNK=8K # eight\nT_WAIT = 1ms\r\n"
                               "T_LABEL = \"a # b\" # c";
    static const char *const calls[] = {"WEFT_T_WAIT=3ms", "T_ON=n", NULL};
    char seen[512] = "";
    struct wi_settings *settings;
    struct values v = {0};

    forget_test_environment();
    setenv("WEFT_T_CHUNK", "16K", 1);
    setenv("WEFT_T_WAIT", "2ms", 1);
    file_write(text, sizeof(text) - 1);
    settings = create(file_path, calls);
    CU_ASSERT_EQUAL(wi_settings_read(settings, "T", table, &v), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_settings_read(settings, "T", table, &v), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(v.on, 0);
    CU_ASSERT_EQUAL(v.count, 5);
    CU_ASSERT_EQUAL(v.chunk, 16384);
    CU_ASSERT_EQUAL(v.wait, 3000000);
    CU_ASSERT_STRING_EQUAL(v.label, "a # b");
    CU_ASSERT_PTR_NULL(v.nothing);
    wi_settings_visit(settings, remember_origin, seen);
    CU_ASSERT_STRING_EQUAL(seen, "ON=n(call) COUNT=5(file) CHUNK=16K(environment) WAIT=3ms(call) "
                                 "LABEL=a # b(file) NOTHING=-(default) ");
    CU_ASSERT_EQUAL(wi_settings_check_unknown(settings), 0);
    wi_settings_destroy(settings);
    wi_settings_destroy(NULL);
    unlink(file_path);
    unsetenv("WEFT_T_CHUNK");
    unsetenv("WEFT_T_WAIT");
}

static void bad_values(void)
{
    static const struct {
        const char *call, *says;
    } cases[] = {
        {"T_COUNT=0", "WEFT_T_COUNT=\"0\" (call): expected an integer, from 1 to 64"},
        {"T_COUNT=many", "WEFT_T_COUNT=\"many\""},
        {"T_CHUNK=1", "expected a size such as 64K, from 1K to 1G"},
        {"T_WAIT=inf", "from 1us to 1min"},
        {"T_ON=perhaps", "expected yes or no"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *calls[] = {cases[i].call, NULL};
        struct wi_settings *settings = create(NULL, calls);
        struct values v = {.count = 77};

        CU_ASSERT_EQUAL(wi_settings_read(settings, "T", table, &v), WEFT_ECONFIG);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), cases[i].says));
        CU_ASSERT_EQUAL(v.count, 77);
        wi_settings_destroy(settings);
    }
}

static void bad_files(void)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"A = 1\nnonsense\n", ":2: expected NAME = value"},
        {"lower = 1", ":1: expected NAME"},
        {"= 1", ":1: expected NAME"},
        {"\n\nA = 1\nWEFT_A = 2\n", ":4: WEFT_A is already set in line 3"},
        {"A = \"open", ":1: A: text around a quoted value"},
        {"A = \"x\" y", "quoted"},
    };
    struct wi_settings *settings = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        file_write(cases[i].text, strlen(cases[i].text));
        CU_ASSERT_EQUAL(wi_settings_create(file_path, NULL, &settings), WEFT_ECONFIG);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), cases[i].says));
        unlink(file_path);
    }
    file_write("A = \0b", 6);
    CU_ASSERT_EQUAL(wi_settings_create(file_path, NULL, &settings), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "NUL"));
    unlink(file_path);
    CU_ASSERT_EQUAL(wi_settings_create("/nonexistent/weft.conf", NULL, &settings), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_settings_create("/dev/zero", NULL, &settings), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_settings_create("/tmp", NULL, &settings), WEFT_ECONFIG);
    CU_ASSERT_PTR_NULL(settings);
}

static void bad_calls(void)
{
    static const char *const no_value[] = {"T_ON=1", "T_COUNT", NULL}, *const no_name[] = {"=1", NULL};
    static const char *const isa[] = {"ISA=abacus", NULL};
    struct wi_settings *settings = NULL;

    CU_ASSERT_EQUAL(wi_settings_create(NULL, no_value, &settings), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "setting 2 of the call, \"T_COUNT\""));
    CU_ASSERT_EQUAL(wi_settings_create(NULL, no_name, &settings), WEFT_ECONFIG);
    CU_ASSERT_EQUAL(wi_settings_create(NULL, isa, &settings), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "abacus"));
    CU_ASSERT_PTR_NULL(settings);
}

/* A first word that is left out is more letters than a misspelling. */
static void lacking_words(void)
{
    CU_ASSERT(wi_setting_lacks_word("WEFT_TIMEOUT", "WEFT_COMM_TIMEOUT"));
    CU_ASSERT(wi_setting_lacks_word("WEFT_INIT_TIMEOUT", "WEFT_COMM_INIT_TIMEOUT"));
    CU_ASSERT(!wi_setting_lacks_word("WEFT_TIMEOUT", "WEFT_COMM_INIT_TIMEOUT"));
    CU_ASSERT(!wi_setting_lacks_word("WEFT_TIMEOUT", "WEFT_TIMEOUT"));
    CU_ASSERT(!wi_setting_lacks_word("WEFT_OUT", "WEFT_COMM_TIMEOUT"));
    CU_ASSERT(!wi_setting_lacks_word("WEFT_", "WEFT_LOG"));
    CU_ASSERT(!wi_setting_lacks_word("", ""));
}

/* What the log says of the names in `calls` that are no settings of `module`, and how many they are. */
static int log_unknown(const char *module, const char *const *calls, char *text, size_t capacity)
{
    char spec[] = "warn,file:/tmp/weft-test-log-XXXXXX";
    int fd = mkstemp(strchr(spec, '/')), unknown;
    struct wi_settings *settings;
    struct values v;
    ssize_t got;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(wi_log_init(spec), WEFT_SUCCESS);
    settings = create(NULL, calls);
    CU_ASSERT_EQUAL(wi_settings_read(settings, module, table, &v), WEFT_SUCCESS);
    unknown = wi_settings_check_unknown(settings);
    got = read(fd, text, capacity - 1);
    text[got < 0 ? 0 : got] = '\0';
    wi_settings_destroy(settings);
    wi_log_init(NULL);
    close(fd);
    unlink(strchr(spec, '/'));
    return unknown;
}

/* A library's on top: its names are left to it, then they are settings as others are. */
static void of_clients(void)
{
    static const struct weft_setting rows[] = {
        {"COUNT", "4", WEFT_SETTING_INT, offsetof(struct values, count), 1, 64, "How many."},
        {"LABEL", "none", WEFT_SETTING_STRING, offsetof(struct values, label), 0, 0, "Text."},
        {NULL, NULL, WEFT_SETTING_STRING, 0, 0, 0, NULL},
    };
    static const char *const calls[] = {"ZERO_COUNT=9", "ZERO_COUNTS=3", "ZEROS=1", NULL}, *const wrong[] = {
                                                                                               "ZERO_COUNT=65",
                                                                                               "ZERO_LABEL=kept", NULL};
    char spec[] = "warn,file:/tmp/weft-test-log-XXXXXX", text[2048];
    int fd = mkstemp(strchr(spec, '/'));
    struct wi_settings *settings;
    struct values v = {.count = 1};
    ssize_t got;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(wi_log_init(spec), WEFT_SUCCESS);
    settings = create(NULL, calls);
    CU_ASSERT_EQUAL(wi_settings_check_unknown(settings), 1);
    got = read(fd, text, sizeof text - 1);
    text[got < 0 ? 0 : got] = '\0';
    CU_ASSERT(strstr(text, "WEFT_ZEROS ") && !strstr(text, "WEFT_ZERO_"));
    CU_ASSERT_EQUAL(wi_settings_read_client(settings, "ZERO", rows, &v), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(v.count, 9);
    CU_ASSERT_STRING_EQUAL(v.label, "none");
    got = read(fd, text, sizeof text - 1);
    text[got < 0 ? 0 : got] = '\0';
    CU_ASSERT(strstr(text, "WEFT_ZERO_COUNTS (call) is not a setting; did you mean WEFT_ZERO_COUNT?") != NULL);
    CU_ASSERT(strstr(text, "WEFT_ZEROS") == NULL);
    CU_ASSERT_EQUAL(wi_settings_read_client(settings, "COMM", rows, &v), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "\"COMM\" is no module of a library") != NULL);
    CU_ASSERT_EQUAL(wi_settings_read_client(settings, "ZERO", table, &v), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "WEFT_ZERO_CHUNK must be equal on all ranks") != NULL);
    wi_settings_destroy(settings);

    settings = create(NULL, wrong);
    v = (struct values){.count = 1};
    CU_ASSERT_EQUAL(wi_settings_read_client(settings, "ZERO", rows, &v), WEFT_ECONFIG);
    CU_ASSERT(strstr(wi_fail_text(), "WEFT_ZERO_COUNT=\"65\" (call): expected an integer, from 1 to 64") != NULL);
    CU_ASSERT(v.count == 1 && !v.label);
    wi_settings_destroy(settings);
    wi_log_init(NULL);
    close(fd);
    unlink(strchr(spec, '/'));
}

static void unknown_names(void)
{
    static const char *const calls[] = {"T_COUNTS=3", "XYZZY_PLUGH=1", "T_ON=y", NULL};
    static const char *const lacks[] = {"COUNT=3", NULL};
    char text[2048];

    CU_ASSERT_EQUAL(log_unknown("T", calls, text, sizeof(text)), 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "WEFT_T_COUNTS (call) is not a setting; did you mean WEFT_T_COUNT?"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "WEFT_XYZZY_PLUGH (call) is not a setting\n"));
    CU_ASSERT_EQUAL(log_unknown("MODULE", lacks, text, sizeof(text)), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "WEFT_COUNT (call) is not a setting; did you mean WEFT_MODULE_COUNT?"));
}

/* Names that resemble a setting about keys are found among what no module has read. */
static void misspelt_keys(void)
{
    static const struct {
        const char *name, *meant;
    } cases[] = {{"WEFT_JOBKEY", "WEFT_JOB_KEY"},
                 {"WEFT_job_key", "WEFT_JOB_KEY"},
                 {"WEFT_KEY_FILE", "WEFT_JOB_KEY_FILE"},
                 {"WEFT_REQUIREKEY", "WEFT_REQUIRE_KEY"},
                 {"WEFT_JOB_KEY_PATH", "WEFT_JOB_KEY_FILE"},
                 {"WEFT_INSECUR", "WEFT_INSECURE"},
                 {"WEFT_XYZZY", NULL},
                 {"WEFT_T_COUNT", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *meant = wi_settings_key_near(cases[i].name);
        char call[64], text[200] = "";
        const char *calls[] = {call, NULL};
        struct values v;
        snprintf(call, sizeof(call), "%s=3", cases[i].name);
        struct wi_settings *settings = create(NULL, calls);
        CU_ASSERT_EQUAL(wi_settings_read(settings, "T", table, &v), WEFT_SUCCESS);
        CU_ASSERT(cases[i].meant ? meant && strcmp(meant, cases[i].meant) == 0 : !meant);
        CU_ASSERT_EQUAL(wi_settings_key_misspelt(settings, text, sizeof(text)), cases[i].meant != NULL);
        CU_ASSERT(!cases[i].meant ||
                  (strstr(text, cases[i].name) == text && strstr(text, "(call) is not a setting; did you mean") &&
                   strstr(text, cases[i].meant)));
        wi_settings_destroy(settings);
    }
}

static uint64_t hash_of(const char *const *calls)
{
    struct wi_settings *settings = create(NULL, calls);
    struct values v;
    char names[64], few[20];
    uint64_t hash;

    CU_ASSERT_EQUAL(wi_settings_read(settings, "T", table, &v), WEFT_SUCCESS);
    hash = wi_settings_hash(settings, NULL);
    wi_settings_equal_names(settings, NULL, names, sizeof(names));
    CU_ASSERT_STRING_EQUAL(names, "WEFT_T_CHUNK, WEFT_T_LABEL");
    wi_settings_equal_names(settings, NULL, few, sizeof(few));
    CU_ASSERT_STRING_EQUAL(few, "WEFT_T_CHUNK, WEFT_");
    wi_settings_destroy(settings);
    return hash;
}

static void hashes(void)
{
    static const char *const same[] = {"T_CHUNK=65536", NULL}, *const other[] = {"T_CHUNK=32K", NULL};
    static const char *const label[] = {"T_LABEL=x", NULL}, *const count[] = {"T_COUNT=5", "ISA=scalar", NULL};
    static const char *const automatic[] = {"ISA=auto", NULL};

    CU_ASSERT_EQUAL(hash_of(NULL), hash_of(same));
    CU_ASSERT_NOT_EQUAL(hash_of(NULL), hash_of(other));
    CU_ASSERT_NOT_EQUAL(hash_of(NULL), hash_of(label));
    CU_ASSERT_EQUAL(hash_of(NULL), hash_of(count)); /* these need not be equal */
    hash_of(automatic);
}

/* A transport's are compared apart from those that all ranks have. */
static void hashes_of_transports(void)
{
    static const char *const chunk[] = {"T_CHUNK=32K", NULL};
    struct wi_settings *settings[2] = {create(NULL, NULL), create(NULL, chunk)};
    struct values v;
    char names[64];

    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(wi_settings_read_transport(settings[i], "T", table, &v), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_settings_hash(settings[i], NULL), 0);
        CU_ASSERT_EQUAL(wi_settings_hash(settings[i], "OTHER"), 0);
        wi_settings_equal_names(settings[i], NULL, names, sizeof(names));
        CU_ASSERT_STRING_EQUAL(names, "");
        wi_settings_equal_names(settings[i], "T", names, sizeof(names));
        CU_ASSERT_STRING_EQUAL(names, "WEFT_T_CHUNK, WEFT_T_LABEL");
    }
    CU_ASSERT_NOT_EQUAL(wi_settings_hash(settings[0], "T"), wi_settings_hash(settings[1], "T"));
    for (int i = 0; i < 2; i++)
        wi_settings_destroy(settings[i]);
}

/* Numbers and sizes that must be powers of two; the setting and the rule are named. */
static void powers_of_two(void)
{
    static const struct weft_setting rows[] = {
        {"DEPTH", "8", WEFT_SETTING_INT | WEFT_SETTING_EQUAL | WEFT_SETTING_POWER_OF_TWO, 0, 2, 64, "How deep."},
        {"SLOT", "64K", WEFT_SETTING_BYTES | WEFT_SETTING_POWER_OF_TWO, 8, 0, 0, "How long."},
        {NULL, NULL, WEFT_SETTING_INT, 0, 0, 0, NULL}};
    static const struct {
        const char *call, *refused;
    } cases[] = {{"T_DEPTH=16", NULL},
                 {"T_DEPTH=2", NULL},
                 {"T_DEPTH=7", "WEFT_T_DEPTH=\"7\" (call): expected an integer, a power of two, from 2 to 64"},
                 {"T_DEPTH=128", "WEFT_T_DEPTH=\"128\" (call): expected an integer, a power of two, from 2 to 64"},
                 {"T_SLOT=1M", NULL},
                 {"T_SLOT=1", NULL},
                 {"T_SLOT=48K", "WEFT_T_SLOT=\"48K\" (call): expected a size such as 64K, a power of two"},
                 {"T_SLOT=0", "WEFT_T_SLOT=\"0\" (call): expected a size such as 64K, a power of two"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *calls[] = {cases[i].call, NULL};
        struct wi_settings *settings = create(NULL, calls);
        int64_t values[2];
        weft_status st = wi_settings_read(settings, "T", rows, values);
        CU_ASSERT_EQUAL(st, cases[i].refused ? WEFT_ECONFIG : WEFT_SUCCESS);
        CU_ASSERT(!cases[i].refused || strcmp(wi_fail_text(), cases[i].refused) == 0);
        wi_settings_destroy(settings);
    }
    wi_fail_clear();
}

/* A row of a plugin that was made for a later library: what it asks for is not guessed. */
static void later_types(void)
{
    static const unsigned types[] = {WEFT_SETTING_FD + 1, WEFT_SETTING_STRING | WEFT_SETTING_POWER_OF_TWO << 1,
                                     UINT_MAX};
    struct weft_setting rows[2] = {{.name = "NEW", .default_value = "1", .help = "Something."}};
    struct wi_settings *settings = create(NULL, NULL);
    int64_t value = 4711;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        rows[0].type = types[i];
        CU_ASSERT_EQUAL(wi_settings_read(settings, "T", rows, &value), WEFT_EPLUGIN);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_T_NEW"));
        CU_ASSERT_EQUAL(value, 4711);
    }
    wi_settings_destroy(settings);
    wi_fail_clear();
}

static void out_of_memory(void)
{
    static const char *const calls[] = {"T_COUNT=3", NULL};
    weft_status status = WEFT_ENOMEM;
    long n = 1;

    file_write("T_LABEL = x\n", 12);
    for (; status == WEFT_ENOMEM && n < 100; n++) {
        struct wi_settings *settings = NULL;
        struct values v;

        wi_alloc_fail_nth(n);
        status = wi_settings_create(file_path, calls, &settings);
        if (status == WEFT_SUCCESS)
            status = wi_settings_read(settings, "T", table, &v);
        wi_alloc_fail_nth(0);
        wi_settings_destroy(settings);
    }
    CU_ASSERT_EQUAL(status, WEFT_SUCCESS);
    CU_ASSERT(n > 8 && n < 100);
    unlink(file_path);
}

static const struct wt_case cases[] = {
    {"value parsers", parsers},
    {"precedence and origins", precedence},
    {"bad values are named", bad_values},
    {"malformed files", bad_files},
    {"malformed calls", bad_calls},
    {"names that lack a word", lacking_words},
    {"unknown names", unknown_names},
    {"a library on top has its own", of_clients},
    {"unknown names that resemble keys", misspelt_keys},
    {"hash", hashes},
    {"hash of transports", hashes_of_transports},
    {"powers of two", powers_of_two},
    {"types of a later library", later_types},
    {"out of memory", out_of_memory},
};
WT_UNIT_MAIN("settings", cases)
