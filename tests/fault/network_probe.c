/* A rank that reduces until it fails, values checked, and then says what it was told: "STATUS PEER SECONDS ROUNDS", the message and
 * the advice.
 * SPDX-License-Identifier: BSD-3-Clause
 * usage: network_probe DEADLINE_SECONDS MOST_SECONDS ELEMENTS
 * Ends with status 0 when the last is over without a failure, with 3 when an operation has failed, with 1 when a value is wrong,
 * with 2 without a communicator. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int64_t given(int rank, int round, size_t i)
{
    return (int64_t)(rank + 1) * 10007 + (int64_t)round * 31 + (int64_t)i + 1;
}

static size_t wrong(const int64_t *dst, int nranks, int round, size_t n)
{
    size_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int r = 0; r < nranks; r++)
            sum += given(r, round, i);
        bad += dst[i] != sum;
    }
    return bad;
}

static int failed(weft_comm *comm, weft_status st, int round, double began)
{
    weft_error e = WEFT_ERROR_INIT;

    if (weft_last_error(comm, &e) < 0)
        return 1;
    printf("%s %d %.1f %d\n%s\n%s\n", weft_status_name(st), e.peer, now() - began, round, e.message, e.advice);
    return 3;
}

int main(int argc, char **argv)
{
    double deadline = argc > 3 ? atof(argv[1]) : 0, most = argc > 3 ? atof(argv[2]) : 0, began, last;
    size_t n = argc > 3 ? (size_t)atol(argv[3]) : 1;
    int64_t *src = malloc(n * 8), *dst = malloc(n * 8), go = 1, all = 0;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_status st = WEFT_SUCCESS;
    int rank, nranks, status = 0, round = 0;

    if (!src || !dst || !deadline || weft_context_create(NULL, &context) < 0 ||
        weft_comm_create_env(context, NULL, &comm) < 0) {
        fprintf(stderr, "%s\n", weft_thread_error());
        status = 2;
        goto end;
    }
    weft_comm_rank(comm, &rank);
    weft_comm_size(comm, &nranks);
    weft_comm_set_timeout(comm, (uint64_t)(deadline * 1e9));
    began = last = now();
    while (st >= 0 && !status && all < nranks) { /* until all have had their time */
        for (size_t i = 0; i < n; i++)
            src[i] = given(rank, round, i);
        last = now();
        st = weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
        if (st >= 0 && wrong(dst, nranks, round, n))
            status = 1, fprintf(stderr, "rank %d, round %d: wrong values\n", rank, round);
        go = now() - began > most;
        if (st >= 0 && !status)
            st = weft_all_reduce(comm, &go, &all, 1, WEFT_INT64, WEFT_SUM, NULL);
        round += st >= 0;
        if (round == 5 && st >= 0)
            printf("going\n"), fflush(stdout);
    }
    if (st < 0)
        status = failed(comm, st, round, last);
    else if (!status)
        printf("right %d\n", round);
end:
    weft_comm_destroy(comm);
    weft_context_destroy(context);
    free(src);
    free(dst);
    return status;
}
