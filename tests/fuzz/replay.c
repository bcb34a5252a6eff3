/* SPDX-License-Identifier: BSD-3-Clause */
/* Run one fuzz target on every input of its corpus, without a fuzzer: what was once found stays found, also where there is no
 * clang. The target's name is the program's, replay_NAME; arguments are folders or files to take instead of
 * tests/fuzz/corpus/fuzz_NAME. One TAP case for each input. A child runs them, so that a crash names its input. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATHS_MAX 4096
#define INPUT_MAX (1 << 20)
#define SECONDS_PER_INPUT 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *paths[PATHS_MAX];
static size_t npaths;

static void add_file(const char *path)
{
    if (npaths == PATHS_MAX) {
        fprintf(stderr, "%s: more than %d inputs\n", path, PATHS_MAX);
        exit(99);
    }
    paths[npaths] = strdup(path);
    if (!paths[npaths++])
        exit(99);
}

static void add(const char *path)
{
    struct stat st;
    DIR *dir;

    if (stat(path, &st)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(99);
    }
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(99);
    }
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char inside[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        add(inside);
    }
    closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* -1: it cannot be read. The copy has the input's exact length, so that a sanitizer sees what is read beyond it. */
static int run_file(const char *path)
{
    static unsigned char room[INPUT_MAX];
    FILE *f = fopen(path, "rb");
    size_t bytes = f ? fread(room, 1, sizeof room, f) : 0;
    int bad = !f || ferror(f) || !feof(f);
    unsigned char *exact = malloc(bytes ? bytes : 1);

    if (f)
        fclose(f);
    if (!bad && exact) {
        memcpy(exact, room, bytes);
        alarm(SECONDS_PER_INPUT * (getenv("WEFT_TEST_SLOW") ? (unsigned)atoi(getenv("WEFT_TEST_SLOW")) : 1));
        LLVMFuzzerTestOneInput(exact, bytes);
    }
    free(exact);
    return bad ? -1 : 0;
}

/* All inputs from *next on, in a child. Returns how it ended; *next is the input that it was at. */
static int run_child(volatile size_t *next)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        for (; *next < npaths; (*next)++)
            if (run_file(paths[*next]))
                _exit(98);
        exit(0); /* with what a sanitizer says at the end */
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        fprintf(stderr, "no child: %s\n", strerror(errno));
        exit(99);
    }
    return status;
}

static const char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int replay(void)
{
    volatile size_t *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t told = 0;
    int failed = 0;

    if (next == MAP_FAILED)
        return 99;
    while (*next < npaths) {
        int status = run_child(next);
        for (; told < *next; told++)
            printf("ok %zu - %s\n", told + 1, short_name(paths[told]));
        if (!status)
            break;
        failed = 1;
        if (told == npaths) { /* a leak, say, that only the end showed */
            printf("not ok %zu - after the last input: status %#x\n", ++told, (unsigned)status);
            npaths = told;
            break;
        }
        printf("not ok %zu - %s: ended by %s %d\n", told + 1, paths[told],
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        *next = ++told;
    }
    printf("1..%zu\n", npaths);
    return failed;
}

int main(int argc, char **argv)
{
    const char *name = strstr(short_name(argv[0]), "replay_"), *top = getenv("WEFT_SRCDIR");
    char corpus[4096];

    for (int i = 1; i < argc; i++)
        add(argv[i]);
    if (argc == 1) {
        snprintf(corpus, sizeof corpus, "%s/tests/fuzz/corpus/fuzz_%s", top && *top ? top : ".",
                 name ? name + strlen("replay_") : "");
        add(corpus);
    }
    if (!npaths) {
        fprintf(stderr, "no input\n");
        return 99;
    }
    qsort(paths, npaths, sizeof *paths, by_name);
    return replay();
}
