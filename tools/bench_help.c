/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: what --help prints. */
#include "weft_bench.h"

#include <string.h>

static const char text[] = "Usage: weft-bench [option]... [collective]...\n"
                           "Time weft's collectives and check every element of every result.\n"
                           "Each rank is a process: start it with weft-run -n N, mpirun -n N, srun or\n"
                           "torchrun --no-python.\n"
                           "\n"
                           "What to run\n"
                           "  -C, --coll NAME[,NAME]   all, or of these (all_reduce); -C may be left out:\n"
                           "                           %s\n"
                           "  -b, --minbytes SIZE      smallest message (default 8); K, M, G: powers of 1024\n"
                           "  -e, --maxbytes SIZE      largest message (default 16M)\n"
                           "  -f, --stepfactor X       from one size to the next by factor (default 2)\n"
                           "  -i, --stepbytes SIZE     ... or by a fixed increment\n"
                           "  -d, --datatype TYPE      float (default), int8, bfloat16, f8e4m3, complex64,\n"
                           "                           ..., or all\n"
                           "  -o, --op OP              sum (default), prod, min, max, avg, band, bor, bxor,\n"
                           "                           land, lor, lxor, or all\n"
                           "  -r, --root RANK          root of rooted collectives (default 0); -1 or all:\n"
                           "                           every rank in turn\n"
                           "      --place out|in|both  out of place, in place (default both)\n"
                           "      --algo NAME          force an algorithm; --list prints all\n"
                           "      --codec SPEC         compress what is sent: int8, int4:block=64,ef=1, ...\n"
                           "                           (weft_compress.h); shown are the bytes that a\n"
                           "                           rank sends for a call, and the squared error, which\n"
                           "                           is judged from 4096 elements on. Default:\n"
                           "                           WEFT_COMPRESS, for what that compresses\n"
                           "      --memory KIND        malloc (default), alloc (weft_mem_alloc), register\n"
                           "                           (weft_mem_register)\n"
                           "      --offset BYTES       shift buffers off their alignment\n"
                           "      --blocking           a call returns when it is complete (default)\n"
                           "      --request            request form: issue, wait\n"
                           "      --persistent         initialise once, start and wait per call\n"
                           "  -z, --blocking-mode 0|1  nccl-tests' spelling: 1 is --blocking, 0 is --request\n"
                           "\n"
                           "How to measure\n"
                           "  -n, --iters N            calls in a timed batch (default: chosen by size, at\n"
                           "                           most about 0.25 s)\n"
                           "  -w, --warmup N           untimed calls before it (default: chosen by size)\n"
                           "  -m, --agg_iters N        group N calls between group_start and group_end\n"
                           "  -N, --run_cycles N       repeat the whole table\n"
                           "  -c, --check N            runs whose results are checked, besides the timed\n"
                           "                           batch (default 1; 0: no check)\n"
                           "  -a, --average HOW        over ranks: 0 rank 0's, 1 mean (default), 2 least, 3\n"
                           "                           greatest\n"
                           "      --dirty HOW          batch (default): inputs are rewritten before a timed\n"
                           "                           batch; each: every cache line is stored to again\n"
                           "                           before each call, untimed; none\n"
                           "      --percentiles        time every call by itself; p50 p90 p99 p99.9 max\n"
                           "      --report_cputime 0|1 print processor time per call, not wall-clock time\n"
                           "  -T, --timeout SECONDS    deadline of each call\n"
                           "      --against mpi        time the MPI under whose mpirun this was started too,\n"
                           "                           batch by batch in turn, and print both and the ratio\n"
                           "\n"
                           "Other measurements\n"
                           "      --overlap            how much of a request-form all-reduce hides behind\n"
                           "                           computation in another thread\n"
                           "      --beside             time of 8-byte requests told by call-back, alone and\n"
                           "                           while another communicator reduces -e bytes (-e 256M)\n"
                           "      --idle-memory        resident memory per communicator\n"
                           "      --startup            seconds from process start (WEFT_BENCH_T0, seconds\n"
                           "                           since the epoch, if set) to the end of the first\n"
                           "                           barrier, the slowest rank's\n"
                           "      --list               algorithms of every collective\n"
                           "\n"
                           "Output: rank 0 prints\n"
                           "  -J, --json FILE          everything as JSON\n"
                           "      --csv FILE           a line per size\n"
                           "      --plot FILE          time and bus bandwidth over size, as SVG\n"
                           "  -h, --help  --version\n"
                           "\n"
                           "Accepted for nccl-tests' sake, with their neutral value only, because buffers\n"
                           "are host memory: -t 1 (threads), -g 1 (GPUs), -p 0 (parallel_init), -G 0\n"
                           "(cudagraph), -y 0 (stream_null).\n"
                           "\n"
                           "Columns: size is bytes as nccl-tests counts them (for all_gather,\n"
                           "reduce_scatter, all_to_all, gather and scatter that of all ranks together), time\n"
                           "is per call averaged over ranks, algbw is size/time, busbw is algbw times\n"
                           "2(n-1)/n for all_reduce, (n-1)/n for the others in that list, 1 for the rest.\n"
                           "1 GB is 1e9 bytes.\n"
                           "Exit status: 0; 1 wrong values or a failure; 2 bad arguments.\n";

void bench_help(FILE *out)
{
    char names[512];
    size_t used = 0, column = 27;

    for (int i = 0; i < BENCH_NUM_COLLS; i++) {
        const char *name = bench_coll_name((enum bench_coll)i);
        int breaks = column + 1 + strlen(name) > 80;
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i == 0   ? ""
                                 : breaks ? "\n                           "
                                          : " ",
                                 name);
        column = (breaks ? 27 : column + (i > 0)) + strlen(name);
    }
    fprintf(out, text, names);
}
