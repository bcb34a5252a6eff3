/* SPDX-License-Identifier: BSD-3-Clause */
/* Status texts, names, allocation failures, clock, hash, text of others, log. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "unit.h"

static void names(void)
{
    char version[32];

    snprintf(version, sizeof(version), "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    CU_ASSERT_STRING_EQUAL(weft_version(), version);
    CU_ASSERT_EQUAL(weft_version_number(), WEFT_VERSION_NUMBER);
    CU_ASSERT_EQUAL(weft_version_number() / 10000, WEFT_VERSION_MAJOR);
    CU_ASSERT_EQUAL(weft_version_number() / 100 % 100, WEFT_VERSION_MINOR);
    CU_ASSERT_EQUAL(weft_version_number() % 100, WEFT_VERSION_PATCH);
    CU_ASSERT_STRING_EQUAL(weft_status_name(WEFT_EPEER), "WEFT_EPEER");
    CU_ASSERT_STRING_EQUAL(weft_status_text(WEFT_EPEER), "peer failed");
    CU_ASSERT_STRING_EQUAL(weft_status_name((weft_status)-999), "unknown");
    CU_ASSERT_STRING_EQUAL(weft_status_text((weft_status)-999), "unknown status");
    CU_ASSERT_STRING_EQUAL(weft_dtype_name(WEFT_BFLOAT16), "bfloat16");
    CU_ASSERT_STRING_EQUAL(weft_dtype_name((weft_dtype)WEFT_NUM_DTYPES), "unknown");
    CU_ASSERT_EQUAL(weft_dtype_bytes(WEFT_COMPLEX128), 16);
    CU_ASSERT_EQUAL(weft_dtype_bytes((weft_dtype)WEFT_NUM_DTYPES), 0);
    CU_ASSERT_STRING_EQUAL(weft_op_name(WEFT_LXOR), "lxor");
    CU_ASSERT_STRING_EQUAL(weft_op_name(WEFT_NUM_OPS), "user");
    for (int i = 0; i < WEFT_NUM_DTYPES; i++)
        CU_ASSERT(weft_dtype_bytes((weft_dtype)i) > 0);
}

static weft_status try_forward(weft_status status)
{
    WI_TRY(status);
    return WEFT_ENOTFOUND;
}

static void *other_thread(void *arg)
{
    *(size_t *)arg = strlen(wi_fail_text());
    wi_fail(WEFT_EINVAL, "of the other thread");
    return NULL;
}

static void failure_text(void)
{
    char longer[3000];
    pthread_t thread;
    size_t length = 1;

    wi_fail_clear();
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "");
    CU_ASSERT_EQUAL(wi_fail(WEFT_EINVAL, "count %d", 7), WEFT_EINVAL);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "count 7");
    CU_ASSERT_EQUAL(wi_fail(WEFT_EINVAL, "outer: %s", wi_fail_text()), WEFT_EINVAL);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "outer: count 7");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, other_thread, &length), 0);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(length, 0);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "outer: count 7");

    CU_ASSERT_EQUAL(wi_fail_errno(EMFILE, "open %s", "x"), WEFT_ENOFILES);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "open x: Too many open files");
    CU_ASSERT_EQUAL(wi_fail_errno(ENOMEM, "a"), WEFT_ENOMEM);
    CU_ASSERT_EQUAL(wi_fail_errno(ENOSPC, "a"), WEFT_ENOSPC);
    CU_ASSERT_EQUAL(wi_fail_errno(ENFILE, "a"), WEFT_ENOFILES);
    CU_ASSERT_EQUAL(wi_fail_errno(EPIPE, "a"), WEFT_ESYS);

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    wi_fail(WEFT_EINVAL, "%s", longer);
    CU_ASSERT(strlen(wi_fail_text()) > 500 && strlen(wi_fail_text()) < sizeof(longer) - 1);

    CU_ASSERT_EQUAL(try_forward(WEFT_EPEER), WEFT_EPEER);
    CU_ASSERT_EQUAL(try_forward(WEFT_INPROGRESS), WEFT_ENOTFOUND);
}

static void allocation(void)
{
    char *text;
    void *p;

    wi_alloc_fail_nth(0);
    p = wi_aligned_alloc(4096, 5);
    CU_ASSERT(p && (uintptr_t)p % 4096 == 0);
    wi_free(p);
    CU_ASSERT_PTR_NULL(wi_aligned_alloc(3, 8));
    CU_ASSERT_PTR_NULL(wi_aligned_alloc(64, SIZE_MAX - 5));
    CU_ASSERT_PTR_NULL(wi_calloc(SIZE_MAX / 2, 3));
    p = wi_malloc(0);
    CU_ASSERT_PTR_NOT_NULL(p);
    p = wi_realloc(p, 10);
    CU_ASSERT_PTR_NOT_NULL(p);
    wi_free(p);
    wi_free(NULL);
    wi_alloc_fail_nth(3);
    p = wi_malloc(1);
    text = wi_strdup("thread");
    CU_ASSERT(p && text && strcmp(text, "thread") == 0);
    CU_ASSERT_PTR_NULL(wi_calloc(1, 1));
    wi_free(text);
    text = wi_calloc(4, 4);
    CU_ASSERT(text && text[15] == 0);
    wi_free(text);
    wi_free(p);
    CU_ASSERT_EQUAL(wi_alloc_fail_nth(0), 4);
    CU_ASSERT_EQUAL(wi_alloc_fail_nth(0), 0);
}

static void clock_agrees(void)
{
    uint64_t before = wi_now_ns(), ticks = wi_ticks(), after = wi_now_ns(), middle;

    middle = wi_ticks_to_ns(ticks);
    CU_ASSERT(middle + 20000 >= before && middle <= after + 20000);
    while (wi_now_ns() - before < 20000000)
        wi_cpu_relax();
    ticks = wi_ticks();
    after = wi_now_ns();
    CU_ASSERT(wi_ticks_to_ns(ticks) + 20000 >= middle + 19000000);
    CU_ASSERT(wi_ticks_to_ns(ticks) <= after + 20000);
    CU_ASSERT(wi_ticks_to_ns(wi_ticks()) >= wi_ticks_to_ns(ticks));
    CU_ASSERT_EQUAL(wi_deadline_ns(UINT64_MAX), UINT64_MAX);
    CU_ASSERT_EQUAL(wi_deadline_ns(UINT64_MAX - 1), UINT64_MAX);
    CU_ASSERT(wi_deadline_ns(5000000000ull) >= after + 5000000000ull);
}

static void hash_and_random(void)
{
    unsigned char a[64] = {0}, b[64] = {0};

    /* The published value for empty input: other machines must agree on it. */
    CU_ASSERT_EQUAL(wi_hash64("", 0, 0), 0x2d06800538d394c2ull);
    CU_ASSERT_NOT_EQUAL(wi_hash64("weft", 4, 0), wi_hash64("weft", 4, 1));
    CU_ASSERT_NOT_EQUAL(wi_hash64("weft", 4, 0), wi_hash64("wefu", 4, 0));
    CU_ASSERT_EQUAL(wi_random(a, sizeof(a)), 0);
    CU_ASSERT_EQUAL(wi_random(b, sizeof(b)), 0);
    CU_ASSERT(memcmp(a, b, sizeof(a)) != 0);
}

/* ---- Log. */

static char log_file[64];

static void log_read(char *text, size_t capacity)
{
    int fd = open(log_file, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, capacity - 1);

    text[got < 0 ? 0 : got] = '\0';
    if (fd >= 0)
        close(fd);
}

static void log_spec(char *spec, size_t capacity, const char *level)
{
    int fd;

    strcpy(log_file, "/tmp/weft-test-log-XXXXXX");
    fd = mkstemp(log_file);
    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
    snprintf(spec, capacity, "%s,file:%s", level, log_file);
}

static void log_lines(void)
{
    char spec[128], text[8192], longer[4000], who[64];

    log_spec(spec, sizeof(spec), "info");
    CU_ASSERT_EQUAL(wi_log_init(spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_log_init(spec), WEFT_SUCCESS);
    wi_log(WEFT_LOG_INFO, "test.first", "number %d\nforged line", 5);
    wi_log(WEFT_LOG_DEBUG, "test.hidden", "not shown");
    wi_log_write(WEFT_LOG_DEBUG, "test.hidden", "not shown");
    wi_log_set_rank(3);
    errno = 77;
    wi_log(WEFT_LOG_ERROR, "test.second", "with a rank");
    CU_ASSERT_EQUAL(errno, 77);
    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    wi_log(WEFT_LOG_WARN, "test.long", "%s", longer);
    log_read(text, sizeof(text));
    snprintf(who, sizeof(who), ":%ld r? INFO test.first: number 5 forged line\n", (long)getpid());
    CU_ASSERT_EQUAL(strncmp(text, "weft 2", 6), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, who));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " r3 ERROR test.second: with a rank\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "yyy...\n"));
    CU_ASSERT_PTR_NULL(strstr(text, "hidden"));
    unlink(log_file);

    log_spec(spec, sizeof(spec), "trace");
    CU_ASSERT_EQUAL(wi_log_init(spec), WEFT_SUCCESS);
    wi_log(WEFT_LOG_TRACE, "test.other", "in the second file");
    log_read(text, sizeof(text));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "TRACE test.other"));
    wi_log_set_rank(-1);
    CU_ASSERT_EQUAL(wi_log_init(NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_log_level, 0);
    wi_log(WEFT_LOG_ERROR, "test.off", "must not appear");
    log_read(text, sizeof(text));
    CU_ASSERT_PTR_NULL(strstr(text, "test.off"));
    unlink(log_file);
}

static void log_bad_specs(void)
{
    static const char *const bad[] = {
        "loud", "info,", "info,stderr", "info,file:", ",file:/tmp/x", "infos", "info,file:/nonexistent-folder/x"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        wi_fail_clear();
        CU_ASSERT(wi_log_init(bad[i]) < 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_LOG"));
        CU_ASSERT_EQUAL(wi_log_level, 0);
    }
}

/* Letters of any language stay; what controls a terminal goes, however it is spelt. */
static void text_of_others(void)
{
    char text[32] = "a\n\x1b[2J\x7f \xc2\x9b 2J \xc3\x9b \xc2\xa0", full[4] = {'a', 'b', 'c', 'd'};

    wi_text_sanitize(text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "a  [2J     2J \xc3\x9b \xc2\xa0");
    wi_text_sanitize(full, sizeof full);
    CU_ASSERT_STRING_EQUAL(full, "abc");

    /* Not UTF-8: alone, cut, overlong, a surrogate, beyond U+10FFFF. */
    static const struct {
        const char *text, *shown;
    } table[] = {{"a\x9b"
                  "2J",
                  "a 2J"},
                 {"\xe2\x82\xac\xf0\x9f\xa7\xb5", "\xe2\x82\xac\xf0\x9f\xa7\xb5"},
                 {"x\xe2\x82", "x  "},
                 {"\xc3(", " ("},
                 {"\xc0\xaf\xe0\x80\xaf", "     "},
                 {"\xed\xa0\x80\xf4\x90\x80\x80\xff", "        "}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        snprintf(text, sizeof(text), "%s", table[i].text);
        wi_text_sanitize(text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, table[i].shown);
    }
}

static const struct wt_case cases[] = {
    {"names", names},
    {"failure text", failure_text},
    {"allocation and its failures", allocation},
    {"clock", clock_agrees},
    {"hash and random", hash_and_random},
    {"text of others", text_of_others},
    {"log lines", log_lines},
    {"malformed log settings", log_bad_specs},
};
WT_UNIT_MAIN("base", cases)
