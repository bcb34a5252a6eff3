/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: what its files share. Only the public header of the library is used. */
#ifndef WEFT_TOOLS_WEFT_BENCH_H
#define WEFT_TOOLS_WEFT_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

/* ---- Collectives ---- */

/* X(id, name, reduces, rooted) in the order of --coll all */
#define BENCH_COLL_LIST(X)                                                                         \
    X(ALL_REDUCE, "all_reduce", 1, 0)                                                              \
    X(REDUCE, "reduce", 1, 1)                                                                      \
    X(BROADCAST, "broadcast", 0, 1)                                                                \
    X(ALL_GATHER, "all_gather", 0, 0)                                                              \
    X(ALL_GATHER_V, "all_gather_v", 0, 0)                                                          \
    X(REDUCE_SCATTER, "reduce_scatter", 1, 0)                                                      \
    X(REDUCE_SCATTER_V, "reduce_scatter_v", 1, 0)                                                  \
    X(ALL_TO_ALL, "all_to_all", 0, 0)                                                              \
    X(ALL_TO_ALL_V, "all_to_all_v", 0, 0)                                                          \
    X(GATHER, "gather", 0, 1)                                                                      \
    X(GATHER_V, "gather_v", 0, 1)                                                                  \
    X(SCATTER, "scatter", 0, 1)                                                                    \
    X(SCATTER_V, "scatter_v", 0, 1)                                                                \
    X(SCAN, "scan", 1, 0)                                                                          \
    X(EXSCAN, "exscan", 1, 0)                                                                      \
    X(BARRIER, "barrier", 0, 0)                                                                    \
    X(SENDRECV, "sendrecv", 0, 0)

enum bench_coll {
#define BENCH_COLL_ENUM(id, name, reduces, rooted) BENCH_##id,
    BENCH_COLL_LIST(BENCH_COLL_ENUM)
#undef BENCH_COLL_ENUM
        BENCH_NUM_COLLS
};

const char *bench_coll_name(enum bench_coll coll);
int bench_coll_parse(const char *name, enum bench_coll *coll); /* 0, or -1 */
int bench_coll_reduces(enum bench_coll coll);
int bench_coll_rooted(enum bench_coll coll);
int bench_coll_has_in_place(enum bench_coll coll);
double bench_coll_bus_factor(enum bench_coll coll, int nranks);

/* One call, as it is handed to the library or to MPI. The arrays belong to the caller and have nranks entries; only the
 * v-forms use them. all_to_all_v sends and receives the same counts. */
struct bench_call {
    enum bench_coll coll;
    int in_place, rank, nranks, root;
    const void *src;
    void *dst;
    size_t count; /* elements: the vector, or the share of one rank */
    const size_t *counts, *displs;
    weft_dtype dtype;
    weft_op op;
};

/* ---- Options ---- */

enum bench_memory { BENCH_MALLOC, BENCH_ALLOC, BENCH_REGISTER };
enum bench_form { BENCH_BLOCKING, BENCH_REQUEST, BENCH_PERSISTENT };
enum bench_dirty { BENCH_DIRTY_NONE, BENCH_DIRTY_BATCH, BENCH_DIRTY_EACH };
enum bench_mode { /* in the order of the options */
    BENCH_MODE_COLLS,
    BENCH_MODE_OVERLAP,
    BENCH_MODE_BESIDE,
    BENCH_MODE_IDLE,
    BENCH_MODE_STARTUP,
    BENCH_MODE_LIST,
};
enum bench_average { BENCH_AVG_RANK0, BENCH_AVG_MEAN, BENCH_AVG_MIN, BENCH_AVG_MAX };

struct bench_options {
    unsigned colls; /* bit set of enum bench_coll */
    size_t min_bytes, max_bytes, step_bytes;
    double step_factor; /* 0: step_bytes */
    uint64_t iters, warmup, agg, runs, check;
    int has_iters, has_warmup;
    unsigned ops, dtypes; /* bit sets */
    int root;             /* -1: every rank in turn */
    enum bench_memory memory;
    enum bench_form form;
    enum bench_dirty dirty;
    enum bench_mode mode;
    int mode_option; /* which asked for it */
    enum bench_average average;
    int out_of_place, in_place;
    int percentiles, cpu_time, against_mpi;
    int rank; /* as the launcher has it: set before parsing */
    uint64_t timeout_ns;
    size_t offset; /* bytes by which buffers miss alignment */
    const char *algorithm, *codec, *json, *csv, *plot;
};

/* 0: go on; 1: done (rank 0 has printed help); 2: bad arguments, one line on stderr (tool_after_rank_0). */
int bench_options_parse(int argc, char **argv, struct bench_options *o);
void bench_help(FILE *out);
/* bench_parse.c: 0, or -1. A size may end in K, M, G or T (powers of 1024) and B or iB. */
int bench_parse_bytes(const char *text, size_t *bytes);
int bench_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value);
const char *bench_memory_name(enum bench_memory memory);
const char *bench_form_name(enum bench_form form);
const char *bench_dirty_name(enum bench_dirty dirty);

/* ---- Data ---- */

/* Inputs are such that every partial result is exact in the type, so that results are compared bit for bit. */
int bench_data_exact(weft_dtype dtype, weft_op op, int reduces, int nranks); /* 0: no exact inputs exist */
/* Write this rank's input of the call into its source. `seed` changes every value. */
void bench_data_fill(const struct bench_call *call, uint64_t seed);
/* Overwrite the result with bytes that no result has by accident. */
void bench_data_poison(const struct bench_call *call, void *dst, size_t bytes);
/* Elements of the result that differ from the reference. */
uint64_t bench_data_wrong(const struct bench_call *call, uint64_t seed);

/* bench_layout.c. Elements of the share that `from` has for `to`: equal to `count` for uniform collectives; a quarter
 * more or less for the v-forms, symmetric in the two ranks. */
size_t bench_share_elems(enum bench_coll coll, size_t count, int from, int to);
/* Fill counts and displs of this rank's call and return the elements a buffer must hold. */
size_t bench_layout_make(enum bench_coll coll, size_t count, int nranks, int rank, size_t counts[],
                         size_t displs[]);
/* The count of a call that moves `bytes` in the sense of nccl-tests; rounded down. */
size_t bench_layout_count(enum bench_coll coll, size_t bytes, size_t elem_bytes, int nranks);
size_t bench_layout_bytes(enum bench_coll coll, size_t count, size_t elem_bytes, int nranks);
int bench_coll_per_rank(enum bench_coll coll); /* count is one rank's share */
size_t bench_call_src_elems(const struct bench_call *call); /* elements of input on this rank; 0 if it has none */
size_t bench_call_dst_elems(const struct bench_call *call);

/* ---- Runs ---- */

struct bench_mpi;

#define BENCH_NUM_PERCENTILES 5
extern const double bench_percentile_points[BENCH_NUM_PERCENTILES]; /* the last is the maximum */

struct bench_timing {
    int valid;
    double time_us, algbw, busbw;    /* averaged over ranks */
    double cpu_us;
    double mpi_us;                   /* --against mpi; 0 when not measured */
    double percentile_us[BENCH_NUM_PERCENTILES];
    uint64_t iters;
    uint64_t wrong;                  /* over all ranks */
    uint64_t mpi_wrong;
    int checked;
    int coded, bypassed;             /* by a codec; plain data was sent nevertheless */
    double nmse, nmse_allowed, sent; /* of one call: squared error over squared length; bytes, mean of the ranks */
};

struct bench_row {
    enum bench_coll coll;
    size_t bytes, count;
    weft_dtype dtype;
    weft_op op;
    int root;
    struct bench_timing out, in;
};

struct bench {
    struct bench_options o;
    weft_context *context;
    weft_comm *comm;
    struct bench_mpi *mpi;
    int rank, nranks, local_nranks;
    const char *host;
    struct bench_row *rows;
    size_t nrows, rows_cap;
    uint64_t wrong;
    double busbw_sum;
    uint64_t busbw_n;
    int failed;
    uint64_t seed;
    uint64_t tensor; /* of calls with a codec; 0: one for each count */
    char *default_codec; /* WEFT_COMPRESS, without --codec */
};

/* Print "weft-bench: rank R: what: status: details" and return the status. */
weft_status bench_fail(const struct bench *b, const char *what, weft_status status);

/* bench_weft.c: the library's side of a call */
weft_status bench_weft_run(struct bench *b, const struct bench_call *call);
weft_status bench_weft_init(struct bench *b, const struct bench_call *call, weft_request **req);
weft_status bench_weft_post(struct bench *b, const struct bench_call *call, weft_request **req);
weft_status bench_weft_group(struct bench *b, const struct bench_call *call, uint64_t n);

/* Combine doubles over all ranks with weft itself, outside every timed region. */
weft_status bench_share(struct bench *b, double *values, size_t n, weft_op op);

/* On all ranks, before they exit because values were wrong, and after rank 0 has said so: a launcher ends rank 0 as soon as another
 * one fails. */
void bench_after_rank_0(struct bench *b);

/* bench_codec.c. The codec of --codec, or else of WEFT_COMPRESS; NULL: none. bench_codec_read finds the latter. */
weft_status bench_codec_read(struct bench *b);
const char *bench_codec(const struct bench *b);
int bench_codec_is_for(const struct bench *b, const struct bench_call *call);
/* One call with the codec on data of its own; fills what t has of it. */
weft_status bench_codec_check(struct bench *b, const struct bench_call *call, struct bench_timing *t);

/* bench_buffers.c */
#define BENCH_SLACK 64 /* bytes behind each buffer */
struct bench_buffers {
    void *src_base, *dst_base;
    char *src, *dst;
    size_t bytes;
    weft_mem *src_mem, *dst_mem;
};
weft_status bench_buffers_create(struct bench *b, size_t bytes, struct bench_buffers *buf);
void bench_buffers_destroy(struct bench *b, struct bench_buffers *buf);
/* Point the call at the buffers. */
void bench_buffers_aim(const struct bench_buffers *buf, struct bench_call *call, int in_place);

int bench_run_all(struct bench *b);      /* exit status */
/* Measure with an all_reduce of the largest size, of floats that are checked afterwards on all ranks: *wrong elements. 1: failed,
 * and said so. */
int bench_one_all_reduce(struct bench *b, const char *what,
                         weft_status (*measure)(struct bench *b, struct bench_call *call, double t[4]), double t[4],
                         double *wrong);
int bench_op_fits(weft_dtype dtype, weft_op op); /* whether the operator is defined for the type */
int bench_run_overlap(struct bench *b);
int bench_run_beside(struct bench *b);
int bench_run_idle(struct bench *b);
int bench_run_startup(struct bench *b, double process_start_s);
double bench_process_start(void);        /* seconds since the epoch; WEFT_BENCH_T0 or /proc */
weft_status bench_measure(struct bench *b, struct bench_buffers *buf, struct bench_call *call, int in_place,
                          struct bench_timing *t);

/* bench_report.c: rank 0 prints */
void bench_report_head(const struct bench *b);
void bench_report_coll(const struct bench *b, enum bench_coll coll);
void bench_report_row(const struct bench *b, const struct bench_row *row);
void bench_report_foot(const struct bench *b);
void bench_report_progress(const struct bench *b, enum bench_coll coll, size_t bytes); /* terminals only */

/* bench_files.c, bench_plot.c: 0, or -1 with a message on stderr */
int bench_check_files(const struct bench_options *o); /* before anything is measured: files that cannot be written */
int bench_write_json(const struct bench *b);
int bench_write_csv(const struct bench *b);
int bench_write_plot(const struct bench *b);
/* The JSON of the modes that yield a few numbers; 0, or 1 with a message. */
int bench_write_pairs(const struct bench *b, const char *const names[], const double values[], int n);

/* ---- MPI, loaded at run time ---- */

#define BENCH_MPI_ABI 1
/* What a module compiled with one MPI's mpi.h exports, as `bench_mpi_module`. Functions return 0 or an MPI error. */
struct bench_mpi_ops {
    int abi;
    const char *library; /* file name of the shared library that must be loaded first */
    int (*init)(int *rank, int *nranks);
    int (*finalize)(void);
    int (*version)(char *text, int bytes);
    int (*barrier)(void);
    int (*all_gather)(const void *mine, void *all, size_t bytes);
    int (*supports)(const struct bench_call *call); /* 1 or 0 */
    int (*run)(const struct bench_call *call);
};

/* Find out which MPI started this process, load it and its module, initialise. On failure `why` says what is
 * missing. */
struct bench_mpi *bench_mpi_open(const char **why);
const struct bench_mpi_ops *bench_mpi_ops(const struct bench_mpi *mpi);
void bench_mpi_rank(const struct bench_mpi *mpi, int *rank, int *nranks);
void bench_mpi_close(struct bench_mpi *mpi);

#endif
