/* SPDX-License-Identifier: BSD-3-Clause */
/* What weft_context_security says of each way to configure a job key, without doing anything. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/harness/harness.h"
#include "unit.h"

static const char digits[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

static void asks(const char *first, const char *second, weft_key_state key, int required, const char *text,
                 const char *misspelt)
{
    const char *settings[] = {"TRANSPORTS=inproc", first, second, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_security found = WEFT_SECURITY_INIT;
    weft_context *context = NULL;

    config.settings = settings;
    CU_ASSERT_EQUAL_FATAL(weft_context_create(&config, &context), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_context_check(context), WEFT_SUCCESS);
    for (int i = 0; i < 2; i++) { /* asking changes nothing */
        CU_ASSERT_EQUAL_FATAL(weft_context_security(context, &found), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(found.key, key);
        CU_ASSERT_EQUAL(found.required, required);
        if (!strstr(found.text, text))
            printf("# \"%s\" is not in: %s\n", text, found.text);
        CU_ASSERT_PTR_NOT_NULL(strstr(found.text, text));
        CU_ASSERT_EQUAL(found.misspelt != NULL, misspelt != NULL);
        if (misspelt && found.misspelt)
            CU_ASSERT_PTR_NOT_NULL(strstr(found.misspelt, misspelt));
    }
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static void without(void)
{
    asks(NULL, NULL, WEFT_KEY_NONE, 0, "no job key: a job on several hosts needs one", NULL);
    asks("WEFT_INSECURE=y", NULL, WEFT_KEY_INSECURE, 0, "anyone who reaches the network", NULL);
    asks("WEFT_REQUIRE_KEY=y", NULL, WEFT_KEY_REFUSED, 1, "no job key is configured", NULL);
    asks("WEFT_REQUIRE_KEY=y", "WEFT_INSECURE=y", WEFT_KEY_REFUSED, 1, "both set", NULL);
    asks("WEFT_JOBKEY_FILE=x", NULL, WEFT_KEY_NONE, 0, "no job key",
         "WEFT_JOBKEY_FILE (call) is not a setting; did you mean WEFT_JOB_KEY_FILE?");
}

static void files(void)
{
    char path[4096], setting[4200];
    FILE *file;

    snprintf(path, sizeof path, "%s/weft.key", wt_temp_dir());
    snprintf(setting, sizeof setting, "WEFT_JOB_KEY_FILE=%s", path);
    asks(setting, NULL, WEFT_KEY_REFUSED, 0, "No such file", NULL);
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(digits, file);
    fclose(file);
    CU_ASSERT_EQUAL(chmod(path, 0600), 0);
    asks(setting, NULL, WEFT_KEY_CONFIGURED, 0, "a job key is configured", NULL);
    asks(setting, "WEFT_REQUIRE_KEY=y", WEFT_KEY_CONFIGURED, 1, "a job key is configured", NULL);
    asks(setting, "WEFT_INSECURE=y", WEFT_KEY_CONFIGURED, 0, "a job key is configured", NULL);
    CU_ASSERT_EQUAL(truncate(path, 10), 0);
    asks(setting, NULL, WEFT_KEY_REFUSED, 0, "holds 10 bytes", NULL);
}

/* The key is the ranks': it stays in its pipe, and an open file stays open for the programs that this one starts. */
static void descriptors(void)
{
    char setting[64], path[4096], got[sizeof digits];
    int ends[2], fd;

    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    snprintf(setting, sizeof setting, "WEFT_JOB_KEY_FD=%d", ends[0]);
    asks(setting, NULL, WEFT_KEY_UNREAD, 0, "is a pipe", NULL); /* nobody waits for its writer */
    CU_ASSERT_EQUAL(write(ends[1], digits, sizeof digits), sizeof digits);
    asks(setting, NULL, WEFT_KEY_UNREAD, 0, "is a pipe", NULL);
    CU_ASSERT_EQUAL(read(ends[0], got, sizeof got), sizeof got);
    CU_ASSERT_EQUAL(memcmp(got, digits, sizeof got), 0);
    close(ends[0]);
    close(ends[1]);
    asks(setting, NULL, WEFT_KEY_REFUSED, 0, "is not an open descriptor", NULL);
    snprintf(path, sizeof path, "%s/of_fd.key", wt_temp_dir());
    fd = open(path, O_RDWR | O_CREAT, 0600);
    CU_ASSERT_EQUAL(write(fd, digits, 64), 64);
    snprintf(setting, sizeof setting, "WEFT_JOB_KEY_FD=%d", fd);
    asks(setting, NULL, WEFT_KEY_CONFIGURED, 0, "a job key is configured", NULL);
    CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), 0);
    close(fd);
}

static const struct wt_case cases[] = {
    {"no job key", without},
    {"key files", files},
    {"keys behind descriptors are left where they are", descriptors},
};
WT_UNIT_MAIN("security", cases)
