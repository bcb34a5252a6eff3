/* The suite of collectives, all of it.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

int main(int argc, char **argv)
{
    return cc_suite("collectives_long", 1, argc, argv);
}
