/* arena.h: the memory one rank shows to the others of its group, and how they sleep and wake in it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One arena is [control | slots | rings]. The control part is small, is backed by memory from the start and is
 * mapped for all ranks side by side, so that watching 64 idle peers costs one page table, not 64. Slots and rings
 * are virtual until touched; every ring has a fixed place, so nothing is negotiated on first use.
 */
#ifndef WI_SHM_ARENA_H
#define WI_SHM_ARENA_H

#include <pthread.h>
#include <weft/weft_plugin.h>

#define WI_SHM_LINE 128u
#define WI_SHM_PAGE 4096u
#define WI_SHM_MAX_MEMBERS 4096u
#define WI_SHM_LANES 4u
#define WI_SHM_LL_LINES 5u
/* Slots of ll lines are small, so there are many: a root runs ahead of its readers until they are used up, and with more ranks
 * than cores each time that happens costs a switch of processes. */
#define WI_SHM_LL_DEPTH 64u
#define WI_SHM_RING_CTL WI_SHM_PAGE

#define WI_SHM_ALIGNED __attribute__((aligned(128)))

/* Every field group on its own line has one writer, named beside it. */
struct wi_shm_ctl {
    struct weft_board board WI_SHM_ALIGNED;      /* the owner */
    uint64_t mem_generation WI_SHM_ALIGNED;      /* the owner: bumped when one of its segments goes */
    uint32_t bell WI_SHM_ALIGNED;                /* futex word; stored to by every process that wakes the owner */
    uint32_t processor WI_SHM_ALIGNED;           /* the owner */
    uint32_t sleepers WI_SHM_ALIGNED;            /* only the first member's is used: all ranks */
    uint64_t asleep[WI_SHM_MAX_MEMBERS / 64] WI_SHM_ALIGNED; /* likewise; one bit per member */
    struct weft_signal signals[WI_SHM_LANES] WI_SHM_ALIGNED; /* the owner, as all below */
    struct weft_signal done WI_SHM_ALIGNED;
};
_Static_assert(sizeof(struct wi_shm_ctl) <= WI_SHM_PAGE, "the control lines fit one page");
_Static_assert(sizeof(struct weft_signal) == WI_SHM_LINE, "one signal, one line");

struct wi_shm_layout {
    uint32_t nmembers, depth;
    size_t slot_bytes;
    size_t ring_bytes;  /* data of one ring, a power of two */
    size_t ctl_bytes;   /* control part of the file, whole pages */
    size_t rings_at;    /* offset in the bulk part */
    size_t bulk_bytes;
};

/* Slots grow until they have a line for each member's block (WEFT_SLOT_MIN_BYTES). Ring sizes shrink until one arena stays below
 * 4 GiB of address space. */
weft_status wi_shm_layout_init(struct wi_shm_layout *layout, uint32_t nmembers, uint32_t depth, size_t slot_bytes,
                               size_t ring_bytes);

/* Where things are in one mapped arena. */
struct wi_shm_arena {
    struct wi_shm_ctl *ctl;
    unsigned char *bulk;
};
struct weft_ll_line *wi_shm_arena_ll(const struct wi_shm_arena *arena);
unsigned char *wi_shm_arena_ring(const struct wi_shm_arena *arena, const struct wi_shm_layout *layout,
                                 uint32_t receiver, uint32_t chan);

/* Sleeping ranks of one group. */
struct wi_shm_bells {
    const struct wi_shm_arena *arenas; /* [nmembers] */
    uint32_t nmembers, self;
    int futex_flags;        /* FUTEX_PRIVATE_FLAG for ranks of one process */
    int membarrier;         /* command that makes publishers' stores visible; 0: none on some member */
    pthread_mutex_t lock;   /* threads of this rank that sleep at the same time */
    uint32_t nasleep;
};
/* Register this process to be reached by membarrier; returns the command for sleepers, 0 when there is none. */
int wi_shm_membarrier_register(int one_process);
weft_status wi_shm_bells_init(struct wi_shm_bells *bells, const struct wi_shm_arena *arenas, uint32_t nmembers,
                              uint32_t self, int one_process, int membarrier);
void wi_shm_bells_fini(struct wi_shm_bells *bells);
void wi_shm_bells_sleep(struct wi_shm_bells *bells, int (*ready)(void *arg), void *arg, uint64_t timeout_ns);
void wi_shm_bells_wake(struct wi_shm_bells *bells);
void wi_shm_bells_wake_one(struct wi_shm_bells *bells, uint32_t member);

static inline int wi_shm_bells_any(const struct wi_shm_bells *bells)
{
    /* The store that was just published must not sink below this load in the compiler; the sleeper's membarrier
     * keeps the processor from it. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&bells->arenas[0].ctl->sleepers, __ATOMIC_RELAXED) != 0;
}

#endif
