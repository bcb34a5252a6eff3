/* The suite of collectives, a sample of it: a minute on two cores. Arguments choose cases by words of their titles.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

int main(int argc, char **argv)
{
    return cc_suite("collectives", 0, argc, argv);
}
