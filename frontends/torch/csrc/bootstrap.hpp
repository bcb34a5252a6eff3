/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks meet in a c10d store: the out-of-band all-gather of the C API, and the barrier that names who is missing. */
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>
#include "engine.hpp"

namespace weft_torch
{

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<uint8_t>;

/* A store in a file is looked at every 10 ms by its wait, which the dozen rounds of making a group add up to 100: look more
 * often at first. Other stores tell at once. */
void await_key(c10d::Store &store, const std::string &key, milliseconds timeout);

/* Wait until every rank but `self` has set its key; "" or who has not by then: "Ranks 1, 3". `all`: else only the first. */
std::string missing_after(c10d::Store &store, const std::string &prefix, int size, int self,
                                 milliseconds timeout, bool all);

/* The out-of-band all-gather. In step k each rank publishes what it has, the values of 2^k ranks from its own on, and reads what
 * the rank 2^k further has: about 3 log2 P calls of the store per rank and value, the same for all ranks (Bruck et al. 1997). */
class Exchange
{
public:
    /* `alike`: what must be the same on all ranks. */
    Exchange(c10d::Store &store, int rank, int size, std::string alike = "")
        : store_(store), rank_(rank), size_(size), alike_(std::move(alike))
    {
    }

    /* A communicator of the ranks that share the store. */
    weft_comm *make_comm(const char *name, milliseconds timeout);
    /* One value of each rank, all of one size, in rank order. */
    Bytes gather(const Bytes &mine, milliseconds timeout);

private:
    std::string key(int round, int step, int rank) const { return round_of(round) + step_of(step) + std::to_string(rank); }
    std::string round_of(int round) const { return c10::str("oob/", generation_, "/", round, "/"); }
    static std::string step_of(int step) { return std::to_string(step) + "/"; }

    Bytes read(int step, int from, milliseconds timeout, steady_clock::time_point until);
    bool first() const { return round_ == 0; }
    /* FNV-1a, 64 bits: it travels with the first value. */
    Bytes digest() const;
    /* Who is in this round has read the one before it; not every store can forget. */
    void forget();
    static int all_gather(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns) noexcept;

    c10d::Store &store_;
    const int rank_, size_;
    int64_t generation_ = 0;
    int round_ = 0;
    const std::string alike_;
    std::string error_;
};

/* Over the store, so that a barrier that fails leaves no trace in the communicator. `who`: the group, for messages. */
void monitored_barrier(c10d::Store &store, const std::string &prefix, const std::string &who, int rank, int size,
                              milliseconds timeout, bool wait_all_ranks);

} // namespace weft_torch
