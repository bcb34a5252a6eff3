/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the copy of what is saved. A system takes longer to give memory than to copy into it: it may be asked for ahead. */
#ifndef WI_CKPT_BUFFER_H
#define WI_CKPT_BUFFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <weft/weft.h>

struct wi_ckpt_buffer {
    unsigned char *data;
    size_t bytes;
    pthread_t thread; /* writes to each page */
    int has_thread;   /* to be joined */
    atomic_int stop;
};
/* At least so many bytes, whatever there was. */
weft_status wi_ckpt_buffer_get(struct wi_ckpt_buffer *buffer, size_t bytes);
/* The same, and a thread lets the system give them until the buffer is used: wi_ckpt_buffer_stop. */
weft_status wi_ckpt_buffer_prepare(struct wi_ckpt_buffer *buffer, size_t bytes);
void wi_ckpt_buffer_stop(struct wi_ckpt_buffer *buffer);
void wi_ckpt_buffer_fini(struct wi_ckpt_buffer *buffer);

#endif
