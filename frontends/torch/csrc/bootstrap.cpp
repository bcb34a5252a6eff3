/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks meet: the out-of-band all-gather of the C API on a c10d store. */
#include "backend.hpp"

#include <thread>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include "runtime.hpp"

namespace weft_torch
{

using steady = std::chrono::steady_clock;

static std::string list_of(const std::vector<int> &ranks)
{
    std::string text;

    for (size_t i = 0; i < ranks.size() && i < 16; i++)
        text += (i ? ", " : "") + std::to_string(ranks[i]);
    return ranks.size() > 16 ? text + ", …" : text;
}

/* A store in a file is looked at every 10 ms by its wait, which the dozen rounds of making a group add up to 100: look more
 * often at first. Other stores tell at once. */
static void await_key(c10d::Store &store, const std::string &key, milliseconds timeout)
{
    auto *prefixed = dynamic_cast<c10d::PrefixStore *>(&store);
    c10d::Store *under = prefixed ? prefixed->getUnderlyingNonPrefixStore().get() : &store;
    auto began = steady::now(), until = began + std::min(timeout, milliseconds(15));

    if (dynamic_cast<c10d::FileStore *>(under))
        for (auto pause = std::chrono::microseconds(100); steady::now() < until; pause += pause / 4) {
            if (store.check({key}))
                return;
            std::this_thread::sleep_for(pause);
        }
    auto left = timeout - std::chrono::duration_cast<milliseconds>(steady::now() - began);
    store.wait({key}, std::max(left, milliseconds(1)));
}

std::string missing_after(c10d::Store &store, const std::string &prefix, int size, int self, milliseconds timeout,
                          bool all)
{
    auto until = steady::now() + timeout;
    std::vector<int> missing;

    for (int r = 0; r < size; r++) {
        std::vector<std::string> key{prefix + std::to_string(r)};
        if (r == self || store.check(key))
            continue;
        auto left = std::chrono::duration_cast<milliseconds>(until - steady::now());
        try {
            await_key(store, key.front(), std::max(left, milliseconds(1)));
        } catch (const std::exception &) {
            missing.push_back(r);
            if (!all)
                break;
        }
    }
    return missing.empty() ? "" : (missing.size() == 1 ? "Rank " : "Ranks ") + list_of(missing);
}

namespace
{
struct Exchange {
    c10d::Store &store;
    int rank, size;
    int round = 0;
    std::string error;

    std::string prefix(int number) const
    {
        return "oob/" + std::to_string(number) + "/";
    }
    void gather(const std::vector<uint8_t> &mine, unsigned char *all, milliseconds timeout);
};

/* Rank 0 collects and publishes: two keys per rank to write and read, whatever the size. */
void Exchange::gather(const std::vector<uint8_t> &mine, unsigned char *all, milliseconds timeout)
{
    std::string keys = prefix(round), result = keys + "all";

    if (rank != 0) {
        store.set(keys + std::to_string(rank), mine);
        try {
            await_key(store, result, timeout);
        } catch (const std::exception &) {
            std::string missing = missing_after(store, keys, size, rank, milliseconds(1), true);
            if (missing.empty() || store.check({keys + "0"}))
                throw;
            TORCH_CHECK(false, missing, " of ", size, " did not join the group within ", timeout.count(), " ms");
        }
        std::vector<uint8_t> got = store.get(result);
        TORCH_CHECK(got.size() == mine.size() * static_cast<size_t>(size), "the store holds ", got.size(),
                    " bytes where ", mine.size() * static_cast<size_t>(size),
                    " were expected: another group uses the same keys");
        memcpy(all, got.data(), got.size());
        return;
    }
    std::string missing = missing_after(store, keys, size, 0, timeout, true);
    TORCH_CHECK(missing.empty(), missing, " of ", size, " did not join the group within ", timeout.count(), " ms");
    std::vector<uint8_t> joined(mine);
    for (int r = 1; r < size; r++) {
        std::vector<uint8_t> one = store.get(keys + std::to_string(r));
        TORCH_CHECK(one.size() == mine.size(), "rank ", r, " sent ", one.size(), " bytes where ", mine.size(),
                    " were expected");
        joined.insert(joined.end(), one.begin(), one.end());
    }
    store.set(result, joined);
    memcpy(all, joined.data(), joined.size());
    /* Every rank has read the round before this one; not every store can forget. */
    for (int r = 1; round > 0 && r <= size; r++) {
        try {
            store.deleteKey(prefix(round - 1) + (r < size ? std::to_string(r) : "all"));
        } catch (const std::exception &) {
            break;
        }
    }
}

int all_gather(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    auto *x = static_cast<Exchange *>(arg);
    auto *from = static_cast<const uint8_t *>(mine);
    uint64_t ms = timeout_ns / 1000000;

    try {
        x->gather(std::vector<uint8_t>(from, from + bytes), static_cast<unsigned char *>(all),
                  milliseconds(std::max<uint64_t>(1, std::min<uint64_t>(ms, 86400000))));
        x->round++;
        return 0;
    } catch (const c10::Error &e) {
        x->error = e.what_without_backtrace();
    } catch (const std::exception &e) {
        x->error = e.what();
    }
    return -1;
}
} // namespace

weft_comm *make_comm(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, const char *name,
                     milliseconds timeout)
{
    Exchange exchange{*store, rank, size};
    weft_oob oob = {sizeof oob, rank, size, all_gather, &exchange};
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = nullptr;

    TORCH_CHECK(store, "weft: no store to meet the other ranks in");
    std::string label = c10::str("group ", name);
    config.name = label.c_str();
    config.timeout_ns = config.init_timeout_ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 1)) * 1000000;
    weft_status st = weft_comm_create_oob(context(), &oob, &config, &comm);
    if (st < 0) {
        std::string text = exchange.error.empty() ? weft_thread_error() : exchange.error;
        C10_THROW_ERROR(DistBackendError, c10::str("weft: group ", name, " could not be made on rank ", rank, " of ",
                                                   size, ": ", text, " (", weft_status_name(st), ")"));
    }
    return comm;
}

/* ---- A barrier that names who is missing; over the store, so that it leaves no trace in the communicator ---- */

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks)
{
    milliseconds timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
    std::string prefix = "monitored_barrier/" + std::to_string(barriers_++) + "/", verdict = prefix + "verdict";
    std::string what = c10::str("weft, group ", engine_->name, ": ");

    store_->set(prefix + std::to_string(rank_), std::vector<uint8_t>{1});
    if (rank_ == 0) {
        std::string missing = missing_after(*store_, prefix, size_, 0, timeout, wait_all_ranks), error;
        if (!missing.empty())
            error = c10::str(missing, " failed to pass monitoredBarrier in ", timeout.count(), " ms");
        store_->set(verdict, std::vector<uint8_t>(error.begin(), error.end()));
        TORCH_CHECK(error.empty() || timeout.count() > 0, what,
                    "Rank 0 timed out in monitoredBarrier after 0 ms: ", error);
        TORCH_CHECK(error.empty(), what, error);
        return;
    }
    /* Rank 0 may need all of its time to find out who is missing. */
    try {
        store_->wait({verdict}, timeout + milliseconds(1000));
    } catch (const std::exception &) {
        TORCH_CHECK(false, what, "Rank ", rank_, " timed out in monitoredBarrier after ", timeout.count(),
                    " ms: Rank 0 did not arrive");
    }
    std::vector<uint8_t> said = store_->get(verdict);
    TORCH_CHECK(said.empty(), what, "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: ",
                std::string(said.begin(), said.end()));
}

} // namespace weft_torch
