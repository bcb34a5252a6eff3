/* SPDX-License-Identifier: BSD-3-Clause */
/* Typical rates and latencies of links, where none is known: bytes per microsecond and microseconds, of servers of about 2022.
 * Links that use one of these have the origin "assumed". */
#ifndef WI_TOPOLOGY_TYPICAL_H
#define WI_TOPOLOGY_TYPICAL_H

#define WI_TYPICAL_CORE_RATE 30000.0     /* a core to its shared cache or memory */
#define WI_TYPICAL_CORE_LATENCY 0.01
#define WI_TYPICAL_CLUSTER_RATE 60000.0  /* one of several caches of a memory */
#define WI_TYPICAL_MEMORY_LATENCY 0.08
#define WI_TYPICAL_INSIDE_RATE 100000.0  /* memory to the crossbar of its package */
#define WI_TYPICAL_INSIDE_LATENCY 0.02
#define WI_TYPICAL_SOCKET_RATE 40000.0
#define WI_TYPICAL_SOCKET_LATENCY 0.1
#define WI_TYPICAL_PCI_RATE 31500.0      /* generation 4, 16 lanes */
#define WI_TYPICAL_PCI_LATENCY 0.3
#define WI_TYPICAL_NVLINK_RATE 25000.0   /* one link of generations 2 to 4 */
#define WI_TYPICAL_NVLINK_LATENCY 0.3
#define WI_TYPICAL_STORAGE_RATE 7000.0
#define WI_TYPICAL_NIC_RATE 1250.0       /* 10 Gbit/s */
#define WI_TYPICAL_WIRE_LATENCY 0.5      /* adapter to switch, with half of the switch */

/* A memory that serves so many cores. */
static inline double wi_typical_memory_rate(int ncores)
{
    double rate = 12000.0 + 6000.0 * ncores;

    return rate < 300000.0 ? rate : 300000.0;
}

#endif
