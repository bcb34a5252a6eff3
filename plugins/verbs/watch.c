/* watch.c: the end of a peer's process, noticed by a request that is never answered.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "watch.h"

#include <stdio.h>
#include <string.h>

static const char watch[8] = "watching";

weft_status vb_watch_begin(const struct weft_host *host, void *side, int peer)
{
    return host->side_request(side, peer, watch, sizeof watch);
}

weft_status vb_watch_look(const struct weft_host *host, void *side, int peer, char why[WEFT_SIDE_WHY_MAX])
{
    char response[sizeof watch];
    size_t bytes;
    weft_status st = host->side_response(side, peer, response, sizeof response, &bytes, why);

    if (st == WEFT_INPROGRESS)
        return st;
    if (st == WEFT_ETIMEDOUT) { /* as it should be: nobody has answered */
        st = vb_watch_begin(host, side, peer);
        if (st >= 0)
            return WEFT_INPROGRESS;
        snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d cannot be watched any more", peer);
    } else if (st >= 0) {
        snprintf(why, WEFT_SIDE_WHY_MAX, "rank %d has answered what nobody answers", peer);
        st = WEFT_EPROTO;
    }
    return st;
}

int vb_watch_is(const void *request, size_t bytes)
{
    return bytes == sizeof watch && memcmp(request, watch, sizeof watch) == 0;
}
