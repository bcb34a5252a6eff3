/* Files that settings and users name: read when they are regular files of a sensible length; else the failure says what is there
 * instead. A pipe without a writer must not hold the caller up.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "plan/table.h"
#include "import/import.h"
#include "tests/harness/harness.h"
#include "topology/graph.h"
#include "unit.h"

#define CAP ((size_t)10000)

static char at[512];

static const char *place(const char *name)
{
    snprintf(at, sizeof at, "%s/%s", wt_temp_dir(), name);
    return at;
}

static void write_file(const char *path, size_t bytes)
{
    FILE *f = fopen(path, "w");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (size_t i = 0; i < bytes; i++)
        fputc('a' + (int)(i % 26), f);
    CU_ASSERT_EQUAL(fclose(f), 0);
}

static void lengths(void)
{
    static const size_t some[] = {0, 1, 4095, 4096, 4097, 8192, CAP};
    char *text;
    size_t bytes;

    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        write_file(place("f"), some[i]);
        CU_ASSERT_EQUAL_FATAL(wi_file_read(at, "thing", CAP, &text, &bytes), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(bytes, some[i]);
        CU_ASSERT_EQUAL(text[bytes], '\0');
        for (size_t k = 0; k < bytes; k++)
            if (text[k] != 'a' + (char)(k % 26))
                CU_FAIL("other contents");
        wi_free(text);
    }
    write_file(place("f"), CAP + 1);
    CU_ASSERT_EQUAL(wi_file_read(at, "thing", CAP, &text, &bytes), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "f\": longer than 10000 bytes"));
    CU_ASSERT_EQUAL(wi_file_read("/proc/self/stat", "thing", CAP, &text, &bytes),
                    WEFT_SUCCESS); /* says that it is empty */
    CU_ASSERT(bytes > 10);
    wi_free(text);
}

/* Whatever is no regular file, by every reader of files. */
static weft_status by_table(const char *path)
{
    struct wi_plan_table *table;
    return wi_plan_table_load(path, &table);
}

static weft_status by_topology(const char *path)
{
    struct wi_topo *topo;
    return wi_topo_load(path, &topo);
}

static weft_status by_import(const char *path)
{
    struct wi_import *import;
    return wi_import_files(&path, 1, &import);
}

static weft_status by_settings(const char *path)
{
    struct wi_settings *settings;
    return wi_settings_create(path, NULL, &settings);
}

static void refused_by_all(const char *path, const char *words)
{
    static weft_status (*const readers[])(const char *) = {by_table, by_topology, by_import, by_settings};

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        wi_fail_clear();
        CU_ASSERT_EQUAL(readers[i](path), WEFT_ECONFIG);
        if (!strstr(wi_fail_text(), words) || !strstr(wi_fail_text(), path)) {
            printf("# reader %zu: \"%s\" and %s expected in: %s\n", i, words, path, wi_fail_text());
            CU_FAIL("another text");
        }
    }
}

static void on_alarm(int signum)
{
    static const char text[] = "# somebody waits for a pipe\n";

    (void)signum;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(3);
    _exit(2);
}

static void no_files(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    signal(SIGALRM, on_alarm); /* the reader that this is about would wait for ever */
    alarm((wt_slow_ms(20000) + 999) / 1000);
    CU_ASSERT_EQUAL_FATAL(mkfifo(place("pipe"), 0600), 0);
    refused_by_all(at, "a pipe, not a regular file");
    refused_by_all("/dev/zero", "a device, not a regular file");
    refused_by_all(wt_temp_dir(), "a directory, not a regular file");
    refused_by_all(place("none"), "No such file");
    place("socket");
    if (strlen(at) < sizeof name.sun_path)
        memcpy(name.sun_path, at, strlen(at));
    if (fd >= 0 && name.sun_path[0] && bind(fd, (struct sockaddr *)&name, sizeof name) == 0)
        refused_by_all(at, "a socket, not a regular file");
    else
        printf("# no socket in the file system: %s\n", strerror(errno));
    close(fd);
    alarm(0);
}

static void says(weft_status st, const char *words)
{
    CU_ASSERT_EQUAL(st, WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), words));
    if (!strstr(wi_fail_text(), words))
        printf("# \"%s\" does not say \"%s\"\n", wi_fail_text(), words);
}

/* Whose it is, which mode it has, and what would be right: the same words for all of them. */
static void owners_and_modes(void)
{
    char right[128];
    int fd, status;

    write_file(place("secret"), 32);
    snprintf(right, sizeof right, "belongs to user %u and has mode 640; it must be user %u's and have mode 600",
             (unsigned)geteuid(), (unsigned)geteuid());
    CU_ASSERT_EQUAL_FATAL(chmod(at, 0640), 0);
    says(wi_file_open_private(at, "thing", &fd), right);
    CU_ASSERT_EQUAL_FATAL(chmod(at, 0600), 0);
    if (geteuid() != 0) {
        printf("# not root: no file of another user is looked at\n");
        return;
    }
    *strrchr(at, '/') = '\0';
    CU_ASSERT_EQUAL_FATAL(chmod(at, 0711), 0);
    strcat(at, "/secret");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *text;
        size_t bytes;
        const char *want =
            "Permission denied: it belongs to user 0 and has mode 600; it must be readable by user 65534";
        if (setresuid(65534, 65534, 65534) || wi_file_read(at, "thing", CAP, &text, &bytes) != WEFT_ECONFIG)
            _exit(1);
        if (!strstr(wi_fail_text(), want))
            printf("# %s\n", wi_fail_text());
        fflush(stdout);
        _exit(!strstr(wi_fail_text(), want));
    }
    CU_ASSERT(waitpid(child, &status, 0) == child && status == 0);
    CU_ASSERT_EQUAL_FATAL(chown(at, 12345, (gid_t)-1), 0);
    says(wi_file_open_private(at, "thing", &fd),
         "belongs to user 12345 and has mode 600; it must be user 0's and have mode 600");
}

static const struct wt_case cases[] = {
    {"files of all lengths", lengths},
    {"what is no regular file is refused at once", no_files},
    {"owner and mode of what is refused", owners_and_modes},
};
WT_UNIT_MAIN("file", cases)
