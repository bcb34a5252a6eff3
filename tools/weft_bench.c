/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: time every collective of weft and check its results, in the manner of nccl-tests. */
#include "tool.h"
#include "weft_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_compress.h>

static void print_algorithm(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    const char **last = arg;

    if (!*last || strcmp(*last, collective) != 0)
        printf("%s\n", collective);
    *last = collective;
    printf("  %-20s %s\n", algorithm, summary ? summary : "");
}

static int list_algorithms(void)
{
    const char *last = NULL;
    weft_status status = tool_launcher_rank() == 0 ? weft_algorithm_list(print_algorithm, &last) : WEFT_SUCCESS;

    if (status == WEFT_SUCCESS) {
        if (tool_launcher_rank() == 0)
            printf(
                "by level, any among the nodes and others inside: node:OUTER[@leader][*CHUNKS][/INNER], see weft(7)\n");
        return tool_output_lost("weft-bench");
    }
    fprintf(stderr, "weft-bench: %s\n", weft_status_text(status));
    return 1;
}

struct find {
    const char *name;
    unsigned colls; /* bit set of collectives that have it */
};

static void find_algorithm(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    struct find *f = arg;
    enum bench_coll coll;

    (void)summary;
    if (strcmp(algorithm, f->name) == 0 && bench_coll_parse(collective, &coll) == 0)
        f->colls |= 1u << coll;
}

/* v-forms use the algorithms of their uniform collective, so only those are looked up. */
static int algorithm_known(const struct bench_options *o)
{
    struct find f = {o->algorithm, 0};

    if (!o->algorithm || strchr(o->algorithm, ':')) /* hierarchical ones are not listed: the library reads them */
        return 1;
    if (weft_algorithm_list(find_algorithm, &f) != WEFT_SUCCESS || f.colls)
        return 1;
    tool_after_rank_0(o->rank);
    fprintf(stderr, "weft-bench: no algorithm is called '%s' (--list prints all)\n", o->algorithm);
    return 0;
}

static int mpi_all_gather(void *arg, const void *mine, size_t mine_bytes, void *all, uint64_t timeout_ns)
{
    (void)timeout_ns; /* MPI has no deadlines */
    return bench_mpi_ops(arg)->all_gather(mine, all, mine_bytes);
}

/* Under --against mpi, MPI is initialised first and tells weft who is who: a launcher's PMI descriptor can only be used
 * by one of the two. */
static weft_status comm_create(struct bench *b)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_oob oob = {.bytes = sizeof(oob), .all_gather = mpi_all_gather, .arg = b->mpi};

    config.name = "weft-bench";
    if (!b->mpi)
        return weft_comm_create_env(b->context, &config, &b->comm);
    bench_mpi_rank(b->mpi, &oob.rank, &oob.nranks);
    return weft_comm_create_oob(b->context, &oob, &config, &b->comm);
}

static int setup(struct bench *b)
{
    int local_rank;
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_status status;

    b->rank = b->o.rank;
    if (b->rank == 0 && bench_check_files(&b->o))
        return 2;
    status = weft_context_create(&config, &b->context);
    if (status != WEFT_SUCCESS)
        return bench_fail(b, "weft_context_create", status), 1;
    status = bench_codec_read(b);
    if (status != WEFT_SUCCESS)
        return bench_fail(b, "WEFT_COMPRESS", status), 1;
    if (b->o.mode == BENCH_MODE_IDLE)
        return 0; /* makes its own communicators */
    status = comm_create(b);
    if (status != WEFT_SUCCESS)
        return bench_fail(b, "communicator", status), 1;
    weft_comm_rank(b->comm, &b->rank);
    weft_comm_size(b->comm, &b->nranks);
    weft_comm_local(b->comm, &local_rank, &b->local_nranks);
    weft_comm_host(b->comm, b->rank, &b->host);
    if (b->o.codec && weft_codec_check(b->o.codec) < 0) { /* now that plugins are loaded */
        tool_after_rank_0(b->rank);
        if (b->rank == 0)
            fprintf(stderr, "weft-bench: --codec: %s\n", weft_thread_error());
        return 2;
    }
    if (b->o.root < b->nranks)
        return 0;
    tool_after_rank_0(b->rank);
    fprintf(stderr, "weft-bench: -r %d: there are only ranks 0 to %d\n", b->o.root, b->nranks - 1);
    return 2;
}

static int run(struct bench *b, double process_start_s)
{
    switch (b->o.mode) {
    case BENCH_MODE_OVERLAP:
        return bench_run_overlap(b);
    case BENCH_MODE_BESIDE:
        return bench_run_beside(b);
    case BENCH_MODE_IDLE:
        return bench_run_idle(b);
    case BENCH_MODE_STARTUP:
        return bench_run_startup(b, process_start_s);
    default:
        return bench_run_all(b);
    }
}

static void teardown(struct bench *b)
{
    if (b->comm && b->failed)
        weft_comm_abort(b->comm, "weft-bench failed");
    weft_comm_destroy(b->comm);
    weft_context_destroy(b->context);
    bench_mpi_close(b->mpi);
    free(b->rows);
    free(b->default_codec);
}

int main(int argc, char **argv)
{
    struct bench b = {.nranks = 1, .local_nranks = 1, .host = ""};
    const char *why = NULL;
    double start_s = bench_process_start();

    b.o.rank = tool_launcher_rank();
    int status = bench_options_parse(argc, argv, &b.o);
    if (status)
        return status == 1 ? tool_output_lost("weft-bench") : status;
    if (b.o.mode == BENCH_MODE_LIST)
        return list_algorithms();
    if (!algorithm_known(&b.o))
        return 2;
    if (b.o.against_mpi && !(b.mpi = bench_mpi_open(&why))) {
        tool_after_rank_0(b.o.rank);
        fprintf(stderr, "weft-bench: --against mpi: %s\n", why);
        return 2;
    }
    status = setup(&b);
    if (status == 0)
        status = run(&b, start_s);
    else
        b.failed = 1;
    teardown(&b);
    int lost = tool_output_lost("weft-bench");
    return status ? status : lost;
}
