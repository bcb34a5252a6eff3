/* SPDX-License-Identifier: BSD-3-Clause */
#include "bootstrap.hpp"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace weft_torch
{

void await_key(c10d::Store &store, const std::string &key, milliseconds timeout)
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

std::string missing_after(c10d::Store &store, const std::string &prefix, int size, int self, milliseconds timeout,
                          bool all)
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

weft_comm *Exchange::make_comm(const char *name, milliseconds timeout)
{
    weft_oob oob = {sizeof oob, rank_, size_, all_gather, this};
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = nullptr;
    std::string label = c10::str("group ", name);

    config.name = label.c_str();
    config.timeout_ns = config.init_timeout_ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 1)) * 1000000;
    weft_status st = weft_comm_create_oob(context(), &oob, &config, &comm);
    /* The library goes on after an exchange that failed when it knows already why there will be no group: who knows it too
     * may have left, with the store. */
    bool exchange_failed = !error_.empty() && (st == WEFT_EPEER || st == WEFT_ETIMEDOUT);
    if (st < 0)
        C10_THROW_ERROR(DistBackendError,
                        c10::str("weft: group ", name, " could not be made on rank ", rank_, " of ", size_, ": ",
                                 exchange_failed ? error_ : weft_thread_error(), " (", weft_status_name(st), ")"));
    return comm;
}

Bytes Exchange::gather(const Bytes &mine, milliseconds timeout)
{
    auto until = steady_clock::now() + timeout;
    Bytes all(mine);

    /* Another group may have met under the same keys: a rank's n-th exchange meets the others' n-th. */
    if (!generation_)
        generation_ = store_.add("oob/" + std::to_string(rank_), 1);
    for (int have = 1, step = 0; have < size_; have = std::min(2 * have, size_), step++) {
        int from = (rank_ + have) % size_;
        store_.set(key(round_, step, rank_), all);
        Bytes theirs = read(step, from, timeout, until);
        TORCH_CHECK(theirs.size() == have * mine.size(), "the store holds ", theirs.size(), " bytes of rank ", from,
                    " where ", have * mine.size(), " were expected: another group uses the same keys");
        all.insert(all.end(), theirs.begin(), theirs.begin() + std::min(have, size_ - have) * mine.size());
    }
    forget();
    round_++;
    /* From this rank's on, round to those before it. */
    std::rotate(all.begin(), all.end() - rank_ * mine.size(), all.end());
    return all;
}

Bytes Exchange::read(int step, int from, milliseconds timeout, steady_clock::time_point until)
{
    auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());

    try {
        await_key(store_, key(round_, step, from), std::max(left, milliseconds(1)));
    } catch (const std::exception &) {
        if (steady_clock::now() < until - milliseconds(10)) /* it is the store that failed */
            throw;
        std::string missing = missing_after(store_, round_of(round_) + step_of(0), size_, rank_, milliseconds(1), true);
        TORCH_CHECK(missing.empty(), missing, " of ", size_, " did not join the group within ", timeout.count(), " ms");
        throw;
    }
    return store_.get(key(round_, step, from));
}

Bytes Exchange::digest() const
{
    uint64_t h = 14695981039346656037ull;
    for (unsigned char c : alike_)
        h = (h ^ c) * 1099511628211ull;
    auto *bytes = reinterpret_cast<const uint8_t *>(&h);
    return Bytes(bytes, bytes + sizeof h);
}

void Exchange::forget()
{
    try {
        for (int have = 1, step = 0; round_ > 0 && have < size_; have *= 2, step++)
            store_.deleteKey(key(round_ - 1, step, rank_));
    } catch (const std::exception &) {
    }
}

int Exchange::all_gather(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns) noexcept
{
    auto *x = static_cast<Exchange *>(arg);
    auto *from = static_cast<const uint8_t *>(mine);
    milliseconds timeout(std::clamp<uint64_t>(timeout_ns / 1000000, 1, 86400000));

    try {
        Bytes value = x->first() ? x->digest() : Bytes();
        value.insert(value.end(), from, from + bytes);
        size_t extra = value.size() - bytes;
        Bytes got = x->gather(value, timeout);
        for (int r = 0; r < x->size_; r++) {
            const uint8_t *of_rank = got.data() + r * value.size();
            TORCH_CHECK(memcmp(of_rank, value.data(), extra) == 0, "rank ", r,
                        " was given other algorithms in its pg_options "
                        "than this rank, which has \"",
                        x->alike_, "\": weft.Options must be the same on all ranks");
            memcpy(static_cast<uint8_t *>(all) + r * bytes, of_rank + extra, bytes);
        }
        return 0;
    } catch (const c10::Error &e) {
        x->error_ = e.what_without_backtrace();
    } catch (const std::exception &e) {
        x->error_ = e.what();
    } catch (...) {
        x->error_ = "the store has thrown what is no exception of C++";
    }
    return -1;
}

void monitored_barrier(c10d::Store &store, const std::string &prefix, const std::string &who, int rank, int size,
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
