/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's units without an interpreter: the exchange over a store, and the life of operations, with threads for ranks. */
#include <condition_variable>
#include <cstdio>
#include <map>
#include <thread>

#include "frontends/torch/csrc/backend.hpp"

using namespace weft_torch;

static int cases, failures;
static const milliseconds kDeadline(60000);

/* As TAP; what a case throws is why it failed. */
template <class F> static void tap(const char *what, F body)
{
    std::string why;

    try {
        body();
    } catch (const c10::Error &e) {
        why = e.what_without_backtrace();
    } catch (const std::exception &e) {
        why = e.what();
    }
    printf("%sok %d - %s\n", why.empty() ? "" : "not ", ++cases, what);
    if (!why.empty()) {
        printf("# %s\n", why.c_str());
        failures++;
    }
    fflush(stdout);
}

/* fn(rank) in a thread of each rank; the first exception of any is thrown here. */
template <class F> static void on_ranks(int size, F fn)
{
    std::vector<std::thread> threads;
    std::mutex lock;
    std::exception_ptr first;

    for (int r = 0; r < size; r++)
        threads.emplace_back([&, r] {
            try {
                fn(r);
            } catch (...) {
                std::lock_guard<std::mutex> guard(lock);
                if (!first)
                    first = std::current_exception();
            }
        });
    for (auto &thread : threads)
        thread.join();
    if (first)
        std::rethrow_exception(first);
}

/* ---- The exchange ---- */

/* A store of this process. torch's own is compiled without sanitizers, so that they would not see whom it makes wait for whom. */
struct Shelf {
    std::mutex lock;
    std::condition_variable changed;
    std::map<std::string, std::vector<uint8_t>> values;
    std::map<std::string, int64_t> counts;
};

/* One rank's view of it, which counts its calls. */
class Counting final : public c10d::Store
{
  public:
    explicit Counting(std::shared_ptr<Shelf> shelf) : shelf_(std::move(shelf))
    {
    }
    c10::intrusive_ptr<c10d::Store> clone() override
    {
        return c10::make_intrusive<Counting>(shelf_);
    }
    void set(const std::string &key, const std::vector<uint8_t> &value) override
    {
        auto held = counted();
        shelf_->values[key] = value;
        shelf_->changed.notify_all();
    }
    std::vector<uint8_t> get(const std::string &key) override
    {
        auto held = counted();
        await(held, key, kDeadline);
        return shelf_->values[key];
    }
    int64_t add(const std::string &key, int64_t value) override
    {
        auto held = counted();
        return shelf_->counts[key] += value;
    }
    bool deleteKey(const std::string &key) override
    {
        auto held = counted();
        return shelf_->values.erase(key) > 0;
    }
    bool check(const std::vector<std::string> &keys) override
    {
        auto held = counted();
        return std::all_of(keys.begin(), keys.end(), [&](auto &key) { return shelf_->values.count(key) > 0; });
    }
    int64_t getNumKeys() override
    {
        auto held = counted();
        return static_cast<int64_t>(shelf_->values.size());
    }
    void wait(const std::vector<std::string> &keys) override
    {
        wait(keys, kDeadline);
    }
    void wait(const std::vector<std::string> &keys, const milliseconds &timeout) override
    {
        auto held = counted();
        for (auto &key : keys)
            await(held, key, timeout);
    }

    int calls = 0;

  private:
    std::unique_lock<std::mutex> counted()
    {
        calls++;
        return std::unique_lock<std::mutex>(shelf_->lock);
    }
    void await(std::unique_lock<std::mutex> &held, const std::string &key, milliseconds timeout)
    {
        bool there = shelf_->changed.wait_for(held, timeout, [&] { return shelf_->values.count(key) > 0; });
        TORCH_CHECK(there, "nobody has set ", key, " within ", timeout.count(), " ms");
    }
    std::shared_ptr<Shelf> shelf_;
};

static int log2_up(int n)
{
    int steps = 0;
    while (1 << steps < n)
        steps++;
    return steps;
}

/* Two exchanges: what each rank gets, and how often it asks the store: publishing, waiting and reading in each step, and forgetting
 * what was published an exchange before. */
static void exchange_of(int size)
{
    auto shelf = std::make_shared<Shelf>();

    on_ranks(size, [&](int rank) {
        Counting counting(shelf);
        Exchange exchange(counting, rank, size);
        int before = 0, steps = log2_up(size);
        for (uint8_t round = 0; round < 2; round++) {
            Bytes all = exchange.gather(Bytes{static_cast<uint8_t>(rank), round}, kDeadline);
            TORCH_CHECK(all.size() == 2 * static_cast<size_t>(size), "rank ", rank, " of ", size, " got ", all.size(),
                        " bytes");
            for (int r = 0; r < size; r++)
                TORCH_CHECK(all[2 * r] == r && all[2 * r + 1] == round, "rank ", rank, " of ", size,
                            " got something else from rank ", r, " in exchange ", static_cast<int>(round));
            int calls = counting.calls - before, most = round ? 4 * steps : 3 * steps + 1;
            TORCH_CHECK(calls <= most, "rank ", rank, " of ", size, " asked the store ", calls, " times, not ", most);
            before = counting.calls;
        }
    });
}

/* ---- Operations: two ranks of this process ---- */

using BackendPtr = c10::intrusive_ptr<Backend>;

template <class F> static void with_group(int size, F fn)
{
    auto shelf = std::make_shared<Shelf>();
    static int groups;
    std::string name = "test" + std::to_string(groups++);

    on_ranks(size, [&](int rank) {
        auto options = c10::make_intrusive<WeftOptions>(kDeadline);
        options->group_name = name;
        auto group = c10::make_intrusive<Backend>(c10::make_intrusive<Counting>(shelf), rank, size, options);
        fn(rank, group);
        group->shutdown();
    });
}

static void expect_sum(const at::Tensor &t, double sum)
{
    TORCH_CHECK(t.eq(sum).all().item<bool>(), "not ", sum, " everywhere: ", t);
}

static void collectives()
{
    with_group(3, [](int rank, const BackendPtr &group) {
        for (int64_t elems : {1, 1000, 300000}) {
            Tensors t{at::full({elems}, rank + 1.0)};
            c10d::AllreduceOptions wait;
            wait.asyncOp = false;
            group->allreduce(t, wait);
            expect_sum(t[0], 6);
            wait.asyncOp = true;
            group->allreduce(t, wait)->wait();
            expect_sum(t[0], 18);
        }
    });
}

static void batches()
{
    with_group(2, [](int rank, const BackendPtr &group) {
        Tensors out{at::full({5000}, 1.0 + rank)}, in{at::zeros({5000})};
        group->startCoalescing();
        group->recv(in, 1 - rank, 3);
        group->send(out, 1 - rank, 3);
        group->endCoalescing()->wait();
        expect_sum(in[0], 2.0 - rank);
    });
}

/* What hangs on a future may throw, and not only exceptions of the standard library's: it does in a thread of the library, which
 * is C. */
template <class Thrown> static void throwing_callback(const Thrown &thrown)
{
    with_group(2, [&thrown](int rank, const BackendPtr &group) {
        Tensors t{at::full({4}, 7.0 * rank)};
        std::atomic<bool> ran{false};
        if (rank == 0) {
            auto work = group->recv(t, 1, 0);
            work->getFuture()->addCallback([&](c10::ivalue::Future &) {
                ran = true;
                throw thrown;
            });
            group->barrier(c10d::BarrierOptions())->wait(); /* rank 1 sends after it */
            auto until = steady_clock::now() + kDeadline;
            while (!ran && steady_clock::now() < until)
                std::this_thread::sleep_for(milliseconds(1));
            TORCH_CHECK(ran, "the call-back did not run");
            work->wait();
        } else {
            group->barrier(c10d::BarrierOptions())->wait();
            group->send(t, 0, 0)->wait();
        }
        group->barrier(c10d::BarrierOptions())->wait(); /* the group is usable */
        expect_sum(t[0], 7);
    });
}

/* Threads issue, wait, poll and look at one group, and at the record of all. */
static void threads_of_one_group()
{
    with_group(2, [](int rank, const BackendPtr &group) {
        std::atomic<bool> over{false};
        std::thread looker([&] {
            while (!over) {
                Recorder::get().copy();
                group->getError();
                group->getSequenceNumberForGroup();
                std::this_thread::yield();
            }
        });
        std::vector<WorkBase> works;
        std::vector<Tensors> tensors;
        for (int i = 0; i < 50; i++)
            tensors.push_back({at::full({100 + 1000 * (i % 3)}, rank + 1.0)});
        for (auto &t : tensors)
            works.push_back(group->allreduce(t, c10d::AllreduceOptions()));
        std::thread poller([&] {
            for (auto &work : works)
                while (!work->isCompleted())
                    std::this_thread::yield();
        });
        for (auto &work : works)
            work->wait(kDeadline);
        poller.join();
        over = true;
        looker.join();
        for (auto &t : tensors)
            expect_sum(t[0], 3);
    });
}

/* A rank that aborts ends the others' operations, blocking ones as well. */
static void abort_from_another_thread()
{
    with_group(2, [](int rank, const BackendPtr &group) {
        if (rank == 1) {
            group->barrier(c10d::BarrierOptions())->wait();
            return;
        }
        group->barrier(c10d::BarrierOptions())->wait();
        std::thread ends([&] { group->abort(); });
        c10d::BarrierOptions blocking;
        blocking.asyncOp = false;
        bool refused = false;
        try {
            for (int i = 0; i < 1000000; i++)
                group->barrier(blocking);
        } catch (const c10::Error &) {
            refused = true;
        }
        ends.join();
        TORCH_CHECK(refused, "the barrier was not ended");
    });
}

static void shapes_are_checked()
{
    with_group(2, [](int, const BackendPtr &group) {
        at::Tensor in = at::zeros({4}), out = at::zeros({5});
        try {
            group->_allgather_base(out, in, c10d::AllgatherOptions());
        } catch (const c10::Error &e) {
            std::string text = e.what_without_backtrace();
            TORCH_CHECK(text.find("world_size times input tensor size") != std::string::npos, text);
            return;
        }
        TORCH_CHECK(false, "5 elements were gathered from 2 times 4");
    });
}

int main()
{
    Fork::watch();
    tap("the exchange is right for 2 to 64 ranks, and asks the store O(log P) times", [] {
        for (int size = 2; size <= 64; size++)
            exchange_of(size);
    });
    tap("collectives of three ranks", collectives);
    tap("a batch of messages", batches);
    tap("a call-back that throws harms nobody", [] { throwing_callback(std::runtime_error("thrown by a test")); });
    tap("nor one that throws what is no exception", [] { throwing_callback(1); });
    tap("threads of one group", threads_of_one_group);
    tap("abort from another thread", abort_from_another_thread);
    tap("sizes that do not fit are refused", shapes_are_checked);
    printf("1..%d\n", cases);
    return failures > 0;
}
