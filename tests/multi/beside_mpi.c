/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of MPI and weft: beside_mpi before|after, when MPI is initialised. test_pmix.sh compiles it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

int main(int argc, char **argv)
{
    int before = argc > 1 && strcmp(argv[1], "before") == 0;
    weft_context *context;
    weft_comm *first, *second;
    float one = 1, mine = 0, theirs = 0;

    if (before)
        MPI_Init(&argc, &argv);
    if (weft_context_create(NULL, &context) < 0 || weft_comm_create_env(context, NULL, &first) < 0) {
        weft_error error = WEFT_ERROR_INIT;

        weft_last_error(NULL, &error);
        printf("failed: %s\n", error.message);
        return 1;
    }
    if (!before)
        MPI_Init(&argc, &argv);
    if (weft_comm_create_env(context, NULL, &second) < 0 ||
        weft_all_reduce(second, &one, &mine, 1, WEFT_FLOAT32, WEFT_SUM, NULL) < 0)
        return 2;
    MPI_Allreduce(&one, &theirs, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    printf("weft %g mpi %g\n", mine, theirs);
    weft_comm_destroy(second);
    weft_comm_destroy(first);
    weft_context_destroy(context);
    return MPI_Finalize() != MPI_SUCCESS;
}
