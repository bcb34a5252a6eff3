/* watch.h: the end of a peer's process, noticed by a request that is never answered.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A card notices that a peer is gone when it has resent something often enough, which takes seconds, and without traffic never.
 * The side channel's connections end with the process. So each of two connected ranks keeps a request open at the other, which is
 * not answered. Any transport with WEFT_CAP_SIDE can use this.
 */
#ifndef VB_WATCH_H
#define VB_WATCH_H

#include <weft/weft_plugin.h>

/* Begin to watch. A request to that peer must not be open. */
weft_status vb_watch_begin(const struct weft_host *host, void *side, int peer);
/* WEFT_INPROGRESS: the peer goes on. Else why it does not is in `why`; the watch has ended then. */
weft_status vb_watch_look(const struct weft_host *host, void *side, int peer, char why[WEFT_SIDE_WHY_MAX]);
/* Is this request one of those, to be taken and not answered? */
int vb_watch_is(const void *request, size_t bytes);

#endif
