/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that a forked child must not keep. A connection ends for the peer when the last process that has its descriptor ends:
 * a child made by fork() that lives on after its parent was killed (a worker that loads data) would keep the parent alive in the
 * eyes of all peers. So the child closes what it inherited at once; across exec() descriptors are closed anyway. */
#ifndef WI_BASE_FDS_H
#define WI_BASE_FDS_H

/* Note a descriptor, which children close from now on; returns it. Below 0: nothing. Any thread. */
int wi_fd_keep(int fd);
/* Close a descriptor, noted or not. */
void wi_fd_close(int fd);

#endif
