/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels: the whole contract of messages (sinks, peek, weft_op_info, unregistered memory, early messages) above a
 * transport that only moves bytes from a posted send to a posted receive, in order for each peer and channel.
 *
 * A transport with WEFT_CAP_SINK, _PEEK and _INFO that needs no registration is used as it is: there is nothing in between.
 * Any other is wrapped when it is opened; its struct weft_transport_ops is then wi_channel_ops.
 *
 *   sender                                  receiver
 *   header [, short message]   raw channel WEFT_CHAN_MAX  -->   one of AHEAD receives that are always posted for each peer
 *   payload in chunks          raw channel of the message -->   posted when a receive has met the header
 *   credit                     <--  raw channel WEFT_CHAN_MAX     headers of the channel that have been consumed
 *
 * A header that no receive waits for is put aside: at most CREDIT of them on a channel, so that what one channel does not
 * receive takes bounded memory and stands in no other channel's way. */
#ifndef WI_NET_CHANNEL_H
#define WI_NET_CHANNEL_H

#include <weft/weft_plugin.h>

/* Does a transport with these capabilities have to be wrapped? */
int wi_channel_needed(uint32_t caps);
/* Put the layer above an endpoint that is open. `raw` (complete, see transports.c) and `host` outlive it. The endpoint is closed
 * with the result, but not when this fails. */
weft_status wi_channel_wrap(const struct weft_plugin *plugin, const struct weft_host *host,
                            const struct weft_transport_ops *raw, void *endpoint, void **wrapped);
extern const struct weft_transport_ops wi_channel_ops;

#endif
