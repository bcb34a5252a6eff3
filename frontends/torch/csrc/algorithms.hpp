/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms that the user names, for a group or for the calls of a thread; and what the library chose, for who asks. */
#pragma once

#include <array>
#include <bit>
#include <set>

#include <sys/mman.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include "runtime.hpp"
#include "scope.hpp"

namespace weft_torch
{

enum Collective {
    kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kAllToAll, kGather, kScatter, kBarrier,
    kCollectives
};

inline constexpr const char *kCollectiveNames[kCollectives] = {"all_reduce",     "broadcast",  "reduce", "all_gather",
                                                               "reduce_scatter", "all_to_all", "gather", "scatter",
                                                               "barrier"};

/* kCollectives: a message, or a batch. */
Collective collective_of(c10d::OpType type);

/* A name for some of the collectives; "": the library chooses. Checked by weft/_algorithms.py. */
struct Algorithms {
    std::array<std::string, kCollectives> names;
    bool any = false;

    static Algorithms of(const std::vector<std::pair<std::string, std::string>> &rows);
    std::string text() const;
    /* NULL: none. */
    const char *name(c10d::OpType type) const;
};

using AlgorithmsPtr = std::shared_ptr<const Algorithms>;
using AlgorithmsScope = Scope<Algorithms>; /* with weft.algorithm(...) */

/* What the library chose, told once for each operation and power of two of bytes. */
class Choices
{
public:
    static bool wanted() { return c10d::debug_level() != c10d::DebugLevel::Off; }
    void tell(weft_comm *comm, const std::string &group, c10d::OpType type, size_t bytes);

    /* From the communicator's own flight recorder: the newest entry that names one. */
    static std::string newest_algorithm(weft_comm *comm);

private:
    static std::string transports();
    std::set<std::pair<int, int>> told_;
};

} // namespace weft_torch
