/* SPDX-License-Identifier: BSD-3-Clause */
/* What changes an exchange of the side channel, with the lock held. */
#ifndef WI_NET_SIDE_EXCHANGE_H
#define WI_NET_SIDE_EXCHANGE_H

#include "net/side_conn.h"

/* There is something more to take, or less. */
void wi_side_news(struct wi_side_group *group, int change);
/* Responder: out of its group's list; what it is not in is left alone. */
void wi_side_unlink(struct wi_side_exchange *x);
/* Responder: the thread tells the other side why. */
void wi_side_refuse(struct wi_side_exchange *x, weft_status status, const char *why);

#endif
