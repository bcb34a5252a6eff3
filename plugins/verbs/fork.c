/* fork.c: children made by fork() close the descriptors of devices: what a process has open there, queue pairs too, lives until the
 * last copy of its descriptor is closed, and peers would go on taking the parent for alive.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * weft_host.fd_close would close them, too, which libibverbs does.
 */
#include "verbs.h"

#include <unistd.h>

#define KEPT 1024

static atomic_int kept[KEPT]; /* 1 + descriptor; 0: free */

static void in_child(void)
{
    for (int i = 0; i < KEPT; i++) {
        int fd = atomic_exchange_explicit(&kept[i], 0, memory_order_relaxed) - 1;
        if (fd >= 0)
            close(fd);
    }
}

static void set_handler(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void vb_fork_keep(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, set_handler);
    for (int i = 0; fd >= 0 && i < KEPT; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&kept[i], &none, fd + 1))
            return;
    }
}

void vb_fork_forget(int fd)
{
    for (int i = 0; fd >= 0 && i < KEPT; i++) {
        int it = fd + 1;
        if (atomic_compare_exchange_strong(&kept[i], &it, 0))
            return;
    }
}
