/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks meet in a c10d store: the out-of-band all-gather of the C API, and the barrier that names who is missing. */
#pragma once

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include "engine.hpp"

namespace weft_torch
{

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<uint8_t>;

/* A store in a file is looked at every 10 ms by its wait, which the dozen rounds of making a group add up to 100: look more
 * often at first. Other stores tell at once. */
inline void await_key(c10d::Store &store, const std::string &key, milliseconds timeout)
{
    auto *prefixed = dynamic_cast<c10d::PrefixStore *>(&store);
    c10d::Store *under = prefixed ? prefixed->getUnderlyingNonPrefixStore().get() : &store;
    auto began = steady_clock::now(), until = began + std::min(timeout, milliseconds(15));

    if (dynamic_cast<c10d::FileStore *>(under))
        for (auto pause = std::chrono::microseconds(100); steady_clock::now() < until; pause += pause / 4) {
            if (store.check({key}))
                return;
            std::this_thread::sleep_for(pause);
        }
    auto left = timeout - std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
    store.wait({key}, std::max(left, milliseconds(1)));
}

/* Wait until every rank but `self` has set its key; "" or who has not by then: "Ranks 1, 3". `all`: else only the first. */
inline std::string missing_after(c10d::Store &store, const std::string &prefix, int size, int self,
                                 milliseconds timeout, bool all)
{
    auto until = steady_clock::now() + timeout;
    std::string names;
    int missing = 0;

    for (int r = 0; r < size && (all || !missing); r++) {
        std::string key = prefix + std::to_string(r);
        if (r == self || store.check({key}))
            continue;
        auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
        try {
            await_key(store, key, std::max(left, milliseconds(1)));
        } catch (const std::exception &) {
            if (missing++ < 16)
                names += (names.empty() ? "" : ", ") + std::to_string(r);
        }
    }
    return missing ? c10::str(missing > 1 ? "Ranks " : "Rank ", names, missing > 16 ? ", …" : "") : "";
}

class Exchange
{
public:
    Exchange(c10d::Store &store, int rank, int size) : store_(store), rank_(rank), size_(size) {}

    /* A communicator of the ranks that share the store. */
    weft_comm *make_comm(const char *name, milliseconds timeout)
    {
        weft_oob oob = {sizeof oob, rank_, size_, all_gather, this};
        weft_comm_config config = WEFT_COMM_CONFIG_INIT;
        weft_comm *comm = nullptr;
        std::string label = c10::str("group ", name);

        config.name = label.c_str();
        config.timeout_ns = config.init_timeout_ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 1)) * 1000000;
        weft_status st = weft_comm_create_oob(context(), &oob, &config, &comm);
        if (st < 0)
            C10_THROW_ERROR(DistBackendError,
                            c10::str("weft: group ", name, " could not be made on rank ", rank_, " of ", size_, ": ",
                                     error_.empty() ? weft_thread_error() : error_, " (", weft_status_name(st), ")"));
        return comm;
    }

private:
    static std::string prefix(int round) { return "oob/" + std::to_string(round) + "/"; }

    void require_nobody(const std::string &missing, milliseconds timeout) const
    {
        TORCH_CHECK(missing.empty(), missing, " of ", size_, " did not join the group within ", timeout.count(), " ms");
    }
    /* Rank 0 collects and publishes: two keys per rank to write and read, whatever the size. */
    Bytes collect(const Bytes &mine, milliseconds timeout)
    {
        std::string keys = prefix(round_);
        Bytes joined(mine);

        require_nobody(missing_after(store_, keys, size_, 0, timeout, true), timeout);
        for (int r = 1; r < size_; r++) {
            Bytes one = store_.get(keys + std::to_string(r));
            TORCH_CHECK(one.size() == mine.size(), "rank ", r, " sent ", one.size(), " bytes where ", mine.size(),
                        " were expected");
            joined.insert(joined.end(), one.begin(), one.end());
        }
        store_.set(keys + "all", joined);
        /* Every rank has read the round before this one; not every store can forget. */
        try {
            for (int r = 1; round_ > 0 && r <= size_; r++)
                store_.deleteKey(prefix(round_ - 1) + (r < size_ ? std::to_string(r) : "all"));
        } catch (const std::exception &) {
        }
        return joined;
    }
    Bytes contribute(const Bytes &mine, milliseconds timeout)
    {
        std::string keys = prefix(round_);

        store_.set(keys + std::to_string(rank_), mine);
        try {
            await_key(store_, keys + "all", timeout);
        } catch (const std::exception &) {
            std::string missing = missing_after(store_, keys, size_, rank_, milliseconds(1), true);
            if (!store_.check({keys + "0"}))
                require_nobody(missing, timeout);
            throw;
        }
        Bytes got = store_.get(keys + "all");
        TORCH_CHECK(got.size() == mine.size() * size_, "the store holds ", got.size(), " bytes where ",
                    mine.size() * size_, " were expected: another group uses the same keys");
        return got;
    }
    static int all_gather(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
    {
        auto *x = static_cast<Exchange *>(arg);
        auto *from = static_cast<const uint8_t *>(mine);
        milliseconds timeout(std::clamp<uint64_t>(timeout_ns / 1000000, 1, 86400000));

        try {
            Bytes own(from, from + bytes), got = x->rank_ ? x->contribute(own, timeout) : x->collect(own, timeout);
            memcpy(all, got.data(), got.size());
            x->round_++;
            return 0;
        } catch (const c10::Error &e) {
            x->error_ = e.what_without_backtrace();
        } catch (const std::exception &e) {
            x->error_ = e.what();
        }
        return -1;
    }

    c10d::Store &store_;
    const int rank_, size_;
    int round_ = 0;
    std::string error_;
};

/* Over the store, so that a barrier that fails leaves no trace in the communicator. `who`: the group, for messages. */
inline void monitored_barrier(c10d::Store &store, const std::string &prefix, const std::string &who, int rank, int size,
                              milliseconds timeout, bool wait_all_ranks)
{
    std::string verdict = prefix + "verdict";

    store.set(prefix + std::to_string(rank), Bytes{1});
    if (rank == 0) {
        std::string missing = missing_after(store, prefix, size, 0, timeout, wait_all_ranks), error;
        if (!missing.empty())
            error = c10::str(missing, " failed to pass monitoredBarrier in ", timeout.count(), " ms");
        store.set(verdict, Bytes(error.begin(), error.end()));
        TORCH_CHECK(error.empty(), who,
                    timeout.count() > 0 ? "" : "Rank 0 timed out in monitoredBarrier after 0 ms: ", error);
        return;
    }
    /* Rank 0 may need all of its time to find out who is missing. */
    try {
        store.wait({verdict}, timeout + milliseconds(1000));
    } catch (const std::exception &) {
        TORCH_CHECK(false, who, "Rank ", rank, " timed out in monitoredBarrier after ", timeout.count(),
                    " ms: Rank 0 did not arrive");
    }
    Bytes said = store.get(verdict);
    TORCH_CHECK(said.empty(), who, "Rank ", rank,
                " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: ",
                std::string(said.begin(), said.end()));
}

} // namespace weft_torch
