/* SPDX-License-Identifier: BSD-3-Clause */
/* Event descriptors that end sleeps. A thread that sleeps in a communicator borrows one of the process's, so that a thousand
 * communicators take no more of them than threads sleep at once. */
#ifndef WI_EXEC_NUDGE_H
#define WI_EXEC_NUDGE_H

/* An executor is there, or gone: with the last one all descriptors are closed. */
void wi_nudge_hold(void);
void wi_nudge_release(void);
/* -1: there is no descriptor. `make`: ask for a new one where none is free. */
int wi_nudge_borrow(int make);
/* Whoever has seen it lent may write to it until the executor is gone: its next borrower wakes for nothing then. */
void wi_nudge_return(int fd);
/* In a forked child: what the parent's threads sleep on is theirs. */
void wi_nudge_forked(void);

#endif
