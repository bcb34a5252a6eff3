/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command-line tools say alike. Needs nothing of the library. */
#ifndef TOOL_H
#define TOOL_H

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL_RANK_0_SECONDS 3

/* At the end of a tool: 1, and said, when not all of standard output could be written. */
static inline int tool_output_lost(const char *tool)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    fprintf(stderr, "%s: the output could not be written: %s\n", tool, errno ? strerror(errno) : "a part was lost before");
    return 1;
}

/* Launchers' variables: which rank this is before there is a communicator. */
static inline int tool_launcher_rank(void)
{
    static const char *const names[] = {"WEFT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return atoi(value);
    }
    return 0;
}

/* Before a complaint that rank 0 has too: a launcher ends the other ranks as soon as one fails, so that one that does not wait here
 * may have rank 0 ended before it has spoken. Whoever is not ended meanwhile, perhaps since only its own arguments are wrong, says
 * it too. */
static inline void tool_after_rank_0(int rank)
{
    unsigned left = rank ? TOOL_RANK_0_SECONDS : 0;

    while (left)
        left = sleep(left);
}

/* Single-character edits between two names; 99 where one is too long to be compared. */
static inline size_t tool_distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);

    for (size_t j = 0; j < 32; j++)
        row[j] = j;
    if (n >= 32)
        return 99;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j], least = diagonal + (a[i - 1] != b[j - 1]);
            least = up + 1 < least ? up + 1 : least;
            row[j] = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            diagonal = up;
        }
    }
    return row[n];
}

/* What may have been meant by a name that there is not: `near` is the nearest of those tried, NULL while all are other words. */
struct tool_similar {
    const char *name, *near;
    size_t distance;
};

static inline void tool_try(struct tool_similar *s, const char *known)
{
    size_t distance = tool_distance(s->name, known);

    if (distance > (strlen(s->name) + 1) / 3 || (s->near && distance >= s->distance))
        return;
    s->near = known;
    s->distance = distance;
}

/* getopt's '?' and ':', in the words of all tools, with opterr 0; returns the exit status. A long option is an argument of its own,
 * a letter may stand among others. */
static inline int tool_bad_option(const char *tool, int option, char *const *argv)
{
    const char letter[] = {'-', (char)optopt, '\0'}, *given = argv[optind - 1];

    if (strncmp(given, "--", 2) != 0 && optopt > 0 && optopt < 128)
        given = letter;
    fprintf(stderr, "%s: '%s' %s; see %s --help\n", tool, given, option == ':' ? "wants a value" : "is not an option", tool);
    return 2;
}

#endif
