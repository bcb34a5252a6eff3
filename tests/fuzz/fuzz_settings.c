/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the value parsers and the configuration file. Build with -fsanitize=fuzzer,address. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/settings.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct values {
    int64_t count;
    const char *text;
};
static const struct weft_setting table[] = {
    {"COUNT", "4", WEFT_SETTING_INT, offsetof(struct values, count), 1, 64, "How many."},
    {"TEXT", "", WEFT_SETTING_STRING, offsetof(struct values, text), 0, 0, "Text."},
    {NULL, NULL, WEFT_SETTING_INT, 0, 0, 0, NULL},
};

static void parse_values(const char *text)
{
    uint64_t ns = 0;
    int64_t integer = 0;
    size_t size = 0;
    int truth = 2;

    (void)wi_parse_bytes(text, &size);
    (void)wi_parse_time(text, &ns);
    if (wi_parse_int(text, &integer) == 0) {
        char again[32];
        int64_t back = 0;

        /* What was accepted must survive being printed. */
        snprintf(again, sizeof(again), "%lld", (long long)integer);
        require(wi_parse_int(again, &back) == 0 && back == integer);
    }
    require(wi_parse_bool(text, &truth) || truth == 0 || truth == 1);
}

static void parse_file(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    struct wi_settings *settings = NULL;
    struct values values;
    char path[64];

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (wi_settings_create(path, NULL, &settings) != WEFT_SUCCESS)
        return;
    if (wi_settings_read(settings, "T", table, &values) == WEFT_SUCCESS)
        require(values.count >= 1 && values.count <= 64 && values.text);
    (void)wi_settings_check_unknown(settings);
    wi_settings_destroy(settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);

    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    parse_values(text);
    free(text);
    parse_file(data, bytes);
    return 0;
}
