/* transport_side.h: a side channel (weft_host.side_*) between the ranks of the transport suite, over memory that they share.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TC_TRANSPORT_SIDE_H
#define TC_TRANSPORT_SIDE_H

#include <weft/weft_plugin.h>

struct tc_side_shared; /* made before the ranks are */
struct tc_side_shared *tc_side_shared_new(int nranks);
void tc_side_shared_free(struct tc_side_shared *shared);

struct tc_side; /* of one rank; what weft_group_config.side points to */
struct tc_side *tc_side_join(struct tc_side_shared *shared, int rank, struct weft_host *host);
void tc_side_free(struct tc_side *side);
/* The rank begins to make its group number `group`, the same number on all ranks. */
void tc_side_begin(struct tc_side *side, uint64_t group);
/* Before group_destroy: who requests of it is told that it has left. */
void tc_side_end(struct tc_side *side);

#endif
