/* sleep.c: how ranks of a shared-memory group fall asleep and wake each other.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * No wake-up is lost:
 *   sleeper    s1 read bell; s2 set own bit, sleepers++; s3 membarrier; s4 ready()?; s5 wait while bell is unchanged
 *   publisher  p1 store data; p2 read sleepers, if 0 done; p3 for every set bit: take it; p4 bell++, wake
 * membarrier runs a full barrier on every processor where a registered thread runs, at some point of that thread's
 * program between the sleeper's s2 and s4; a thread that does not run had one when it was switched out. If the point
 * lies after p1, the store is visible to s4 and the rank does not sleep. If it lies before p1, then p2 comes after
 * s2 and sees the sleeper. Either way publishers need no fence: the price is paid by those who have time.
 * A process that takes a bit takes it after s2, hence rings after s1: a sleeper between s1 and s5 does not block, and one that
 * is blocked is woken. Publishers that find the bit taken rely on the taker, who is about to ring; one that dies
 * between p3 and p4 costs one nap: no sleep is longer than NAP_MAX_NS.
 */
#include "arena.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_MAX_NS 100000000ull             /* callers look after dead peers at least this often */
#define NAP_WITHOUT_MEMBARRIER_NS 500000ull /* the longest a lost wake-up can hurt on such a kernel */

int wi_shm_membarrier_register(int one_process)
{
    int enroll = one_process ? MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED : MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    int command = one_process ? MEMBARRIER_CMD_PRIVATE_EXPEDITED : MEMBARRIER_CMD_GLOBAL_EXPEDITED;
    long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

    if (known < 0 || !(known & command) || !(known & enroll))
        return 0;
    return syscall(SYS_membarrier, enroll, 0, 0) == 0 ? command : 0;
}

weft_status wi_shm_bells_init(struct wi_shm_bells *bells, const struct wi_shm_arena *arenas, uint32_t nmembers,
                              uint32_t self, int one_process, int membarrier)
{
    *bells = (struct wi_shm_bells){.arenas = arenas,
                                   .nmembers = nmembers,
                                   .self = self,
                                   .futex_flags = one_process ? FUTEX_PRIVATE_FLAG : 0,
                                   .membarrier = membarrier};
    return pthread_mutex_init(&bells->lock, NULL) == 0 ? WEFT_SUCCESS : WEFT_ENOMEM;
}

void wi_shm_bells_fini(struct wi_shm_bells *bells)
{
    pthread_mutex_destroy(&bells->lock);
}

static uint64_t *word_of(const struct wi_shm_bells *bells, uint32_t member)
{
    return &bells->arenas[0].ctl->asleep[member / 64];
}

static void announce(struct wi_shm_bells *bells)
{
    pthread_mutex_lock(&bells->lock);
    __atomic_fetch_or(word_of(bells, bells->self), 1ull << bells->self % 64, __ATOMIC_SEQ_CST);
    if (bells->nasleep++ == 0)
        __atomic_fetch_add(&bells->arenas[0].ctl->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&bells->lock);
}

static void retract(struct wi_shm_bells *bells)
{
    pthread_mutex_lock(&bells->lock);
    if (--bells->nasleep == 0) {
        __atomic_fetch_sub(&bells->arenas[0].ctl->sleepers, 1, __ATOMIC_RELEASE);
        __atomic_fetch_and(word_of(bells, bells->self), ~(1ull << bells->self % 64), __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&bells->lock);
}

void wi_shm_bells_sleep(struct wi_shm_bells *bells, int (*ready)(void *arg), void *arg, uint64_t timeout_ns)
{
    uint32_t *bell = &bells->arenas[bells->self].ctl->bell;
    uint32_t seen = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
    uint64_t nap_ns = bells->membarrier ? NAP_MAX_NS : NAP_WITHOUT_MEMBARRIER_NS;
    struct timespec timeout;

    if (timeout_ns > nap_ns)
        timeout_ns = nap_ns;
    timeout.tv_sec = (time_t)(timeout_ns / 1000000000ull);
    timeout.tv_nsec = (long)(timeout_ns % 1000000000ull);
    announce(bells);
    if (bells->membarrier)
        syscall(SYS_membarrier, bells->membarrier, 0, 0);
    if (!ready(arg))
        syscall(SYS_futex, bell, FUTEX_WAIT | bells->futex_flags, seen, &timeout, NULL, 0);
    retract(bells);
}

static void ring_bell(struct wi_shm_bells *bells, uint32_t member)
{
    uint64_t bit = 1ull << member % 64;
    uint32_t *bell = &bells->arenas[member].ctl->bell;

    if (!(__atomic_fetch_and(word_of(bells, member), ~bit, __ATOMIC_SEQ_CST) & bit))
        return; /* another waker's, or awake by itself */
    __atomic_fetch_add(bell, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, bell, FUTEX_WAKE | bells->futex_flags, INT_MAX, NULL, NULL, 0);
}

void wi_shm_bells_wake_one(struct wi_shm_bells *bells, uint32_t member)
{
    if (__atomic_load_n(word_of(bells, member), __ATOMIC_SEQ_CST) >> member % 64 & 1)
        ring_bell(bells, member);
}

void wi_shm_bells_wake(struct wi_shm_bells *bells)
{
    for (uint32_t first = 0; first < bells->nmembers; first += 64) {
        uint64_t bits = __atomic_load_n(word_of(bells, first), __ATOMIC_SEQ_CST);
        while (bits) {
            uint32_t member = first + (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            if (member < bells->nmembers)
                ring_bell(bells, member);
        }
    }
}
