/* transport_verbs_long.c: the suite over verbs with all its fixtures.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define VERBS_LONG
#include "transport_verbs.c"
