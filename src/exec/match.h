/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point messages: tag matching, and receives from any source. Such a message needs no schedule, as it is one transfer.
 *
 * Messages without a tag (tag 0) have a channel of their own: their receives are posted to the transport, which matches them in
 * order, unless a receive that may take from several channels was issued before. All other messages share a second channel, of
 * which the executor probes the oldest message (weft_transport_ops.peek). If a receive matches, the payload is received in place;
 * if none does, the message is put aside (an unexpected message). Messages up to `eager_bytes` are sent eagerly. Longer ones are
 * sent by rendezvous: a request to send (RTS) on that channel, and the payload on a third one once the receiver has cleared it to
 * send (CTS), so that no long payload blocks another message.
 *
 *   sender                              receiver
 *   message (n, tag, payload)     -->   received in place, or put aside               WI_CHAN_TAG
 *   RTS (n, tag, count)           -->   noted                                         WI_CHAN_TAG
 *                                 <--   CTS of n, with a receive posted               WI_CHAN_CTS
 *   payload of n                  -->   received in place                             WI_CHAN_RNDV
 *
 * Unexpected messages take at most `early_bytes` per sender; beyond that the channel is not read until a receive takes one of them.
 * Channels are only read while receives wait. */
#ifndef WI_EXEC_MATCH_H
#define WI_EXEC_MATCH_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft_plugin.h>

struct wi_exec;
struct wi_op;
struct wi_match_peer;

/* weft_op_info of a message with a tag: root and hash are the tag's halves, seq numbers the sender's messages to this rank.
 * flags, besides those of collectives: */
#define WI_INFO_TAG 2u
#define WI_INFO_RTS 4u
#define WI_INFO_CTS 8u
#define WI_INFO_PLANNED 16u /* of a collective: what was planned behind a gate is in its hash */
/* Likewise: what is planned behind a gate begins with an exchange of buffers, also as long as it is not planned. */
#define WI_INFO_EXCHANGES 32u
#define WI_INFO_CODED 64u /* of a collective: the call has a codec, which is in its hash, with the tensor */

static inline int64_t wi_info_tag(const struct weft_op_info *info)
{
    return info->flags & WI_INFO_TAG ? (int64_t)((uint64_t)info->hash << 32 | info->root) : 0;
}

/* Does a receive with this source and tag (or any) match a message of that source and tag? */
static inline int wi_match_takes(int want_source, int64_t want_tag, int source, int64_t tag)
{
    return (want_source == WEFT_ANY_SOURCE || want_source == source) && (want_tag == WEFT_ANY_TAG || want_tag == tag);
}

/* What wi_match_probe found. */
struct wi_match_found {
    int source;
    int64_t tag;
    struct weft_op_info info;
};

/* Begin a point-to-point message that is in the list of operations already. */
void wi_match_issue(struct wi_exec *exec, struct wi_op *op);
/* May a receive that waits here match messages without a tag from that rank? Then later receives have to queue behind it. */
int wi_match_wanted(const struct wi_exec *exec, int source);
/* Take the oldest waiting receive that matches a message of this rank to itself off the list. */
struct wi_op *wi_match_self(struct wi_exec *exec, int64_t tag, uint64_t before);
int wi_match_progress(struct wi_exec *exec);              /* moved? */
int wi_match_run(struct wi_exec *exec, struct wi_op *op); /* moved? */
/* Probe: is there a message that a receive with this source and tag would match? 1, 0, or a failure. */
int wi_match_probe(struct wi_exec *exec, int source, int64_t tag, struct wi_match_found *found);
/* Why op waits: "a message from rank 3 with tag 5; …". */
void wi_match_text(const struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity);
/* After the mesh is destroyed. */
void wi_match_free(struct wi_exec *exec);

#endif
