/* What the flight recorder says of compressed collectives: codec, tensor, and the bytes that were sent, which follow the formulas.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

enum { COUNT = 300007, TENSOR = 91 };

/* Of the newest entry: what stands behind the last `"key": `. */
static void read_newest(struct ft_rank *f, const char *key, char *value, size_t capacity)
{
    static char text[1 << 18];
    char path[64], quoted[64], *at = NULL;
    FILE *file;

    snprintf(path, sizeof path, "/tmp/weft-record-%d-%%r", (int)getpid());
    WT_CHECK_OK(weft_comm_dump(f->comm, path));
    snprintf(path, sizeof path, "/tmp/weft-record-%d-%d", (int)getpid(), f->rank);
    WT_REQUIRE((file = fopen(path, "re")) != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    WT_REQUIRE((at = strstr(text, "\"entries\"")) != NULL);
    for (char *next; (next = strstr(at + 1, "{\"record_id\"")) != NULL;)
        at = next;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    at = strstr(at, quoted);
    snprintf(value, capacity, "%.*s", at ? (int)strcspn(at + strlen(quoted), ",}") : 0, at ? at + strlen(quoted) : "");
}

static void expect(struct ft_rank *f, const char *key, const char *wanted)
{
    char value[128];

    read_newest(f, key, value, sizeof value);
    if (strcmp(value, wanted) != 0)
        wt_fail(__FILE__, __LINE__, "%s is %s, not %s", key, value, wanted);
}

/* Of a rank: in one shot its vector's image to each other rank; in two, its image of their shares, and that of its sum to each. */
static double formula(int shots, int nranks, size_t image)
{
    return shots == 1 ? (double)image * (nranks - 1) : 2.0 * (double)image * (nranks - 1) / nranks;
}

static void check_bytes(struct ft_rank *f, const char *codec, int shots)
{
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    char value[128];
    size_t image;
    double sent, wanted;

    WT_REQUIRE_OK(weft_codec_bytes(codec, COUNT, &image));
    wanted = formula(shots, f->nranks, image);
    read_newest(f, "bytes_sent", value, sizeof value);
    sent = strtod(value, NULL);
    WT_CHECK_OK(weft_comm_newest_collective(f->comm, &info));
    WT_CHECK(info.bytes_sent == strtoull(value, NULL, 10) && info.tensor == TENSOR && info.completed && !info.bypassed);
    WT_CHECK(strncmp(info.codec, codec, strcspn(codec, ":")) == 0);
    if (!(sent >= 0.99 * wanted && sent <= 1.01 * wanted))
        wt_fail(__FILE__, __LINE__, "%s, %d shots, %d ranks: %s bytes were sent, and the formula has %.0f", codec,
                shots, f->nranks, value, wanted);
}

static void sends(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"int8", "int4:block=64", "sign"};
    float *v = calloc(COUNT, sizeof *v), *sum = calloc(COUNT, sizeof *sum);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, v, sum, COUNT, WEFT_FLOAT32);
    char text[128];
    struct ft_rank f;

    WT_REQUIRE(v && sum);
    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.tensor = TENSOR;
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++)
        for (int shots = 1; shots <= 2; shots++) {
            snprintf(text, sizeof text, "%s%cef=1,bypass=never", codecs[c], strchr(codecs[c], ':') ? ',' : ':');
            options.codec = text;
            options.algorithm = shots == 1 ? "coded" : "coded2";
            WT_REQUIRE_OK(weft_issue(f.comm, &call, NULL));
            check_bytes(&f, codecs[c], shots);
            snprintf(text, sizeof text, "\"%s\"", codecs[c]);
            expect(&f, "codec", text);
            expect(&f, "tensor", "91");
            expect(&f, "codec_bypassed", "false");
            expect(&f, "algorithm", shots == 1 ? "\"coded\"" : "\"coded2\"");
        }
    options.codec = "int8:ef=1";
    options.algorithm = "ring";
    WT_REQUIRE_OK(weft_issue(f.comm, &call, NULL));
    expect(&f, "codec", "\"int8\"");
    expect(&f, "codec_bypassed", "true");
    options.codec = NULL;
    WT_REQUIRE_OK(weft_issue(f.comm, &call, NULL));
    expect(&f, "codec", "");
    if (!strcmp(arg, "tcp")) { /* plain data, twice (P - 1) / P of it */
        double wanted = 2.0 * COUNT * 4 * (nranks - 1) / nranks;
        read_newest(&f, "bytes_sent", text, sizeof text);
        WT_CHECK(strtod(text, NULL) > 0.99 * wanted && strtod(text, NULL) < 1.01 * wanted);
    }
    ft_close(&f);
    free(v);
    free(sum);
}

static void bytes_follow_the_formulas(void)
{
    static const int ranks[] = {2, 3, 4, 7};

    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        CU_ASSERT_EQUAL(wt_run(ranks[i], sends, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, sends, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"bytes that were sent follow the formulas", bytes_follow_the_formulas},
};
WT_UNIT_MAIN("compress_record", cases)
