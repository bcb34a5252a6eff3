/* Rows and columns of a grid as communicators of their own:  weft-run -n 4 ./split
 * SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

int main(void)
{
    weft_context *context = NULL;
    weft_comm *comm = NULL, *row = NULL, *column = NULL, *even = NULL;
    int rank, nranks, row_ranks, column_ranks;

    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));

    int width = 1;
    while ((width + 1) * (width + 1) <= nranks)
        width++;

    /* Same color: same communicator. The key orders the ranks in it. */
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.name = "row";
    CHECK(weft_comm_split(comm, rank / width, rank, &config, &row));
    config.name = "column";
    CHECK(weft_comm_split(comm, rank % width, rank, &config, &column));
    CHECK(weft_comm_size(row, &row_ranks));
    CHECK(weft_comm_size(column, &column_ranks));

    int32_t one = 1, in_row = 0, in_column = 0;
    check(weft_all_reduce(row, &one, &in_row, 1, WEFT_INT32, WEFT_SUM, NULL), row, "row");
    check(weft_all_reduce(column, &one, &in_column, 1, WEFT_INT32, WEFT_SUM, NULL), column, "column");
    expect(in_row == row_ranks && in_column == column_ranks, "split");

    /* Who has no color takes part in the call and gets no communicator. */
    CHECK(weft_comm_split(comm, rank % 2 ? WEFT_COLOR_NONE : 0, rank, NULL, &even));
    expect((even != NULL) == (rank % 2 == 0), "WEFT_COLOR_NONE");

    printf("rank %d: row of %d, column of %d\n", rank, row_ranks, column_ranks);
    CHECK(weft_comm_destroy(even));
    CHECK(weft_comm_destroy(column));
    CHECK(weft_comm_destroy(row));
    CHECK(weft_comm_destroy(comm));
    comm = NULL;
    CHECK(weft_context_destroy(context));
    return 0;
}
