/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-run --make-key: a job key for ranks on several hosts, as 64 hexadecimal digits. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weft_run.h"

#define LINE_BYTES (2 * RUN_KEY_BYTES + 1)

static int key_line(char line[LINE_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char key[RUN_KEY_BYTES];
    if (getrandom(key, sizeof(key), 0) != sizeof(key))
        return -1;
    for (size_t i = 0; i < sizeof(key); i++) {
        line[2 * i] = digits[key[i] >> 4];
        line[2 * i + 1] = digits[key[i] & 15];
    }
    line[LINE_BYTES - 1] = '\n';
    explicit_bzero(key, sizeof(key));
    return 0;
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno != EINTR)
            return -1;
        text += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* A new file, whatever the umask is; what is there is never touched. */
static int write_file(const char *path, const char line[LINE_BYTES])
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        run_complain("--make-key: '%s' exists already and is left as it is; give another name, or remove it", path);
        return RUN_EXIT_USAGE;
    }
    if (fd < 0) {
        run_complain("--make-key: cannot create '%s': %s", path, strerror(errno));
        return RUN_EXIT_USAGE;
    }
    int bad = fchmod(fd, 0600) || write_all(fd, line, LINE_BYTES) || fsync(fd);
    int err = errno;
    if (close(fd) && !bad) {
        bad = 1;
        err = errno;
    }
    if (!bad)
        return 0;
    unlink(path);
    run_complain("--make-key: cannot write '%s': %s", path, strerror(err));
    return 1;
}

int run_make_key(const char *path)
{
    char line[LINE_BYTES];
    int code = 0;
    if (path[0] == '-' && path[1]) {
        run_complain(
            "--make-key wants the name of a file, or - for standard output, and '%s' looks like an option; './%s' is "
            "a file of that name; see weft-run --help",
            path, path);
        return RUN_EXIT_USAGE;
    }
    if (key_line(line)) {
        run_complain("--make-key: no random bytes: %s", strerror(errno));
        return 1;
    }
    if (strcmp(path, "-")) {
        code = write_file(path, line);
    } else if (write_all(STDOUT_FILENO, line, LINE_BYTES)) {
        run_complain("--make-key: cannot write to standard output: %s", strerror(errno));
        code = 1;
    }
    explicit_bzero(line, sizeof(line));
    return code;
}
