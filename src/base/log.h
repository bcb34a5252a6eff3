/* SPDX-License-Identifier: BSD-3-Clause */
/* Log: off by default; WEFT_LOG=error|warn|info|debug|trace[,file:PATH]. Lines go to stderr (or the file) in one
 * write(2): "weft <time> <host>:<pid> r<rank> <LEVEL> <event>: <text>". `event` is a stable dotted id such as
 * "tcp.connect", meant for grep. Nothing is printed uninvited: the default level prints nothing at all. */
#ifndef WI_BASE_LOG_H
#define WI_BASE_LOG_H

#include <stdarg.h>
#include <weft/weft_plugin.h>

extern int wi_log_level; /* enum weft_log_level, 0: off; set by each context creation: read with __atomic_load_n */

weft_status wi_log_init(const char *spec); /* spec of WEFT_LOG; NULL: off. Idempotent. */
void wi_log_set_rank(int rank);            /* of the process, for the prefix; -1 unknown */
void wi_log_write(enum weft_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void wi_log_vwrite(enum weft_log_level level, const char *event, const char *format, va_list ap);

#define wi_log(level, event, ...)                                                                  \
    do {                                                                                           \
        if (__builtin_expect((int)(level) <= __atomic_load_n(&wi_log_level, __ATOMIC_RELAXED), 0)) \
            wi_log_write((level), (event), __VA_ARGS__);                                           \
    } while (0)

#endif
