/* SPDX-License-Identifier: BSD-3-Clause */
#include "algorithms.hpp"

#include <bit>

#include <c10/util/Logging.h>

namespace weft_torch
{

Collective collective_of(c10d::OpType type)
{
    using c10d::OpType;
    switch (type) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
        return kAllReduce;
    case OpType::BROADCAST:
        return kBroadcast;
    case OpType::REDUCE:
        return kReduce;
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
    case OpType::ALLGATHER_COALESCED:
    case OpType::COALESCED: /* allgather_into_tensor_coalesced; of a batch nobody asks */
        return kAllGather;
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
        return kReduceScatter;
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
        return kAllToAll;
    case OpType::GATHER:
        return kGather;
    case OpType::SCATTER:
        return kScatter;
    case OpType::BARRIER:
        return kBarrier;
    default:
        return kCollectives;
    }
}

Algorithms Algorithms::of(const std::vector<std::pair<std::string, std::string>> &rows)
{
    Algorithms made;
    for (const auto &[collective, name] : rows) {
        auto known = std::find(std::begin(kCollectiveNames), std::end(kCollectiveNames), collective);
        TORCH_CHECK_VALUE(known != std::end(kCollectiveNames), "weft: no collective \"", collective, "\"");
        made.names[known - kCollectiveNames] = name;
        made.any = true;
    }
    return made;
}

std::string Algorithms::text() const
{
    std::string all;
    for (int c = 0; c < kCollectives; c++)
        if (!names[c].empty())
            all += c10::str(all.empty() ? "" : ",", kCollectiveNames[c], ":", names[c]);
    return all;
}

const char *Algorithms::name(c10d::OpType type) const
{
    Collective c = collective_of(type);
    return c == kCollectives || names[c].empty() ? nullptr : names[c].c_str();
}

void Choices::tell(weft_comm *comm, const std::string &group, c10d::OpType type, size_t bytes)
{
    Collective c = collective_of(type);
    int size_class = std::bit_width(bytes);

    if (c == kCollectives || told_.count(std::pair<int, int>(c, size_class)))
        return;
    std::string algorithm = newest_algorithm(comm);
    if (algorithm.empty()) /* the ranks are about to agree on it */
        return;
    told_.emplace(c, size_class);
    int local_rank = 0, local_nranks = 0, nranks = 0;
    weft_comm_local(comm, &local_rank, &local_nranks);
    weft_comm_size(comm, &nranks);
    std::string range =
        bytes ? c10::str(1ull << (size_class - 1), " to ", (1ull << size_class) - 1, " bytes") : "0 bytes";
    LOG(WARNING) << "weft: group " << group << ": " << kCollectiveNames[c] << " of " << range << ": algorithm "
                 << algorithm << "; " << local_nranks << " of " << nranks << " ranks are on this host; transports "
                 << transports();
}

std::string Choices::newest_algorithm(weft_comm *comm)
{
    const char *name = "";

    return weft_comm_newest_algorithm(comm, &name) >= 0 ? name : "";
}

std::string Choices::transports()
{
    std::string names;
    auto add = [](void *arg, const weft_plugin_info *plugin) noexcept {
        auto *all = static_cast<std::string *>(arg);
        if (strcmp(plugin->kind, "transport") == 0 && !plugin->refusal)
            *all += (all->empty() ? "" : ", ") + std::string(plugin->name);
    };
    weft_context_plugins(context(), add, &names);
    return names;
}

} // namespace weft_torch
