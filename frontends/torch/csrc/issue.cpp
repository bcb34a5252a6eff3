/* SPDX-License-Identifier: BSD-3-Clause */
#include "issue.hpp"

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

namespace weft_torch
{

void Issuer::startCoalescing()
{
    engine_->check_own("startCoalescing");
    TORCH_CHECK(!open_batch(), "weft: a batch of operations of group ", engine_->name,
                " is open already in this thread");
    Batch::open(engine_);
}

WorkBase Issuer::endCoalescing()
{
    std::unique_ptr<Batch> batch = Batch::close(engine_.get());
    TORCH_CHECK(batch, "weft: no batch of operations of group ", engine_->name, " is open in this thread");
    Op op{OpType::COALESCED, "coalesced", "weft:coalesced"};
    if (!batch->work) {
        WorkPtr work = make_work(op, false);
        work->complete_inline(WEFT_SUCCESS);
        return work;
    }
    auto group = [&](weft_comm *comm, Work *) {
        weft_group_start();
        for (auto &part : batch->parts)
            if (call_all(comm, part.op, part.call, batch->work.get()) < 0)
                break; /* the group remembers it */
        return weft_group_end();
    };
    try {
        return issue(op, group, batch->work, batch.get());
    } catch (...) {
        batch->work->drop("the batch was refused");
        throw;
    }
}

WorkPtr Issuer::make_work(const Op &op, bool profiling)
{
    if (C10_LIKELY(!profiling))
        return c10::make_intrusive<Work>(engine_, op.type, op.name);
    annotate(op, engine_->seq + 1);
    std::optional<Tensors> inputs;
    if (op.all_in)
        inputs = *op.all_in;
    else if (op.in)
        inputs = Tensors{*op.in};
    return c10::make_intrusive<Work>(engine_, op.type, op.name, op.title, inputs);
}

void Issuer::reap()
{
    UnderWay &works = engine_->under_way;

    while (C10_UNLIKELY(!works.empty())) {
        WorkBase oldest = works.oldest();
        if (!oldest || !static_cast<Work *>(oldest.get())->poll(true))
            break;
    }
    if (C10_UNLIKELY(works.count() > 64)) /* behind one that takes long */
        for (auto &work : works.all())
            static_cast<Work *>(work.get())->poll(true);
}

void Issuer::close(milliseconds patience)
{
    Engine &e = *engine_;
    if (e.inherited())
        return;
    auto until = steady_clock::now() + patience;
    std::unique_lock<std::mutex> held(e.lock);

    while (e.blocked > 0) { /* another thread is inside an operation; what others want to begin waits for the lock */
        if (steady_clock::now() > until)
            e.abort("the group was shut down with an operation under way");
        std::this_thread::sleep_for(milliseconds(1));
    }
    for (reap(); !e.under_way.empty() && !e.aborted && steady_clock::now() < until; reap())
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    weft_comm *c = e.comm;
    if (!c)
        return;
    auto left = e.under_way.all();
    if (!left.empty())
        e.abort("the group was shut down with operations under way");
    /* Nobody may be about to look at a request when they go with the communicator. */
    for (auto &work : left)
        for (until = steady_clock::now() + milliseconds(2000); !work->isCompleted() && steady_clock::now() < until;)
            std::this_thread::sleep_for(milliseconds(1));
    e.comm = nullptr;
    while (weft_comm_destroy(c) == WEFT_EBUSY) /* a waiter is about to leave */
        std::this_thread::sleep_for(milliseconds(1));
    for (auto &work : left)
        static_cast<Work *>(work.get())->give_up();
}

Batch *Issuer::open_batch() const
{
    Batch *batch = Batch::find(engine_.get());

    if (C10_LIKELY(!batch) || !batch->left())
        return batch;
    Batch::close(engine_.get())->drop(Work::kLeft);
    return nullptr;
}

WorkBase Issuer::run_now(const Op &op, CallRef call, FillRef fill)
{
    Engine &e = *engine_;
    bool profiling = at::hasCallbacks();
    StackPtr stack = early_stack();
    std::unique_lock<std::mutex> held(e.lock);
    weft_comm *comm = e.open_comm(op.name);

    reap();
    if (op.sync && e.under_way.empty())
        return run_here(op, call, fill, held, comm, stack, C10_UNLIKELY(profiling) ? make_work(op, true) : nullptr);
    held.unlock();
    WorkPtr work = make_work(op, profiling);
    work->stack = std::move(stack);
    fill(*work);
    return issue(
        op, [&](weft_comm *comm, Work *work) { return call_all(comm, op, call, work); }, std::move(work));
}

WorkBase Issuer::add_to(Batch &batch, const Op &op, Call call, FillRef fill)
{
    WorkPtr work = make_work(op, false);

    work->stack = early_stack();
    {
        std::lock_guard<std::mutex> held(engine_->lock);
        engine_->open_comm(op.name);
    }
    fill(*work);
    return batch.add(op, std::move(call), *work, record_of(op));
}

WorkBase Issuer::run_here(const Op &op, CallRef call, FillRef fill, std::unique_lock<std::mutex> &held, weft_comm *comm,
                          const StackPtr &stack, WorkPtr work)
{
    Ticket ticket = number(op, stack);
    weft_status st;
    {
        Engine::Blocked blocked(*engine_);
        held.unlock(); /* other threads may have what the operation waits for */
        BlockingCall blocking(engine_.get());
        st = call_all(comm, op, call, nullptr);
    }
    if (C10_UNLIKELY(engine_->tells_choices && st >= 0)) {
        held.lock();
        if (engine_->usable())
            tell_choice(comm, op);
        held.unlock();
    }
    if (!work)
        work = make_work(op, false);
    work->ticket = ticket;
    if (C10_LIKELY(st >= 0)) {
        fill(*work);
    } else {
        work->stack = stack_level() > 0 ? Stack::capture() : nullptr;
        check_signals();
    }
    work->complete_inline(st);
    if (C10_UNLIKELY(st < 0))
        work->wait(); /* throws */
    return work;
}

WorkBase Issuer::issue(const Op &op, IssueRef calls, WorkPtr work, Batch *batch)
{
    if (!work->stack)
        work->stack = early_stack();
    std::unique_lock<std::mutex> held(engine_->lock);
    weft_comm *comm = engine_->open_comm(op.name);
    work->ticket = batch ? number_batch(*batch) : number(op, work->stack);
    work->issue_status = calls(comm, work.get());
    if (C10_UNLIKELY(engine_->tells_choices && !batch && work->issue_status >= 0))
        tell_choice(comm, op);
    if (C10_UNLIKELY(work->issue_status < 0 && work->requests.empty())) {
        held.unlock();
        work->issued_here();
        work->complete_inline(work->issue_status);
        work->wait(); /* throws */
    }
    /* A short message is gone, or was there, when its call returns. */
    if (!op.p2p() || !work->succeeded_at_once())
        work->list();
    work->now_issued();
    held.unlock();
    if (C10_LIKELY(!op.bare))
        work->issued_here();
    if (C10_UNLIKELY(at::hasCallbacks()))
        work->watch();
    return work;
}

weft_status Issuer::call_all(weft_comm *comm, const Op &op, CallRef call, Work *work)
{
    weft_call_options room;
    /* Kept until the calls are made: a block may be left meanwhile, by a signal's handler or by whoever collects garbage. */
    const CodingPtr coding = op.coding ? op.coding : CodingScope::of_thread();
    const AlgorithmsPtr algorithms = op.algorithms ? op.algorithms : AlgorithmsScope::of_thread();
    const weft_call_options *options = options_of(op, coding.get(), algorithms.get(), room);

    for (size_t i = 0; i < op.ncalls; i++) {
        weft_request *request = nullptr;
        weft_call one = call(i);
        if (C10_UNLIKELY(coding != nullptr))
            coding->set(room, i);
        one.options = options;
        weft_status st = weft_issue(comm, &one, work ? &request : nullptr);
        if (work && request)
            work->requests.push_back(request);
        if (C10_UNLIKELY(st < 0))
            return st;
    }
    return WEFT_SUCCESS;
}

const weft_call_options *Issuer::options_of(const Op &op, const Coding *coding, const Algorithms *algorithms,
                                            weft_call_options &room) const
{
    bool usual = op.timeout == c10d::kUnsetTimeout || op.timeout == engine_->timeout || op.timeout.count() <= 0;
    const char *algorithm = named_algorithm(op, algorithms);

    if (C10_LIKELY(usual && !algorithm && !coding))
        return nullptr;
    room = WEFT_CALL_OPTIONS_INIT;
    room.algorithm = algorithm;
    room.timeout_ns = usual ? 0 : static_cast<uint64_t>(op.timeout.count()) * 1000000;
    return &room;
}

const char *Issuer::named_algorithm(const Op &op, const Algorithms *call) const
{
    if (C10_LIKELY(!call && !engine_->algorithms.any))
        return nullptr;
    const char *name = call ? call->name(op.type) : nullptr;
    return name ? name : engine_->algorithms.name(op.type);
}

void Issuer::tell_choice(weft_comm *comm, const Op &op) const
{
    size_t bytes = op.in ? op.in->nbytes() : op.out ? op.out->nbytes() : 0;

    if (engine_->tells_choices)
        engine_->choices.tell(comm, engine_->name, op.type, bytes);
}

Ticket Issuer::number(const Op &op, const StackPtr &stack)
{
    Engine &e = *engine_;
    Ticket ticket;

    ticket.seq = next(op.p2p() ? e.p2p_seq : e.seq);
    if (Recorder::get().enabled())
        Recorder::get().add(&ticket, [&](Record &r) {
            fill_record(op, r);
            r.seq = e.seq.load(std::memory_order_relaxed);
            r.p2p_seq = e.p2p_seq.load(std::memory_order_relaxed);
            if (C10_UNLIKELY(stack || r.stack))
                r.stack = stack;
        });
    return ticket;
}

Ticket Issuer::number_batch(Batch &batch)
{
    Engine &e = *engine_;
    Op whole{OpType::COALESCED, "coalesced", nullptr};
    Ticket ticket;

    if (batch.collectives)
        ticket.seq = next(e.seq);
    if (batch.messages) {
        uint64_t number = next(e.p2p_seq);
        ticket.seq = batch.collectives ? ticket.seq : number;
    }
    if (!Recorder::get().enabled())
        return ticket;
    auto add = [&](Ticket &one, auto &&fill) {
        Recorder::get().add(&one, [&](Record &r) {
            fill(r);
            r.seq = e.seq.load(std::memory_order_relaxed);
            r.p2p_seq = e.p2p_seq.load(std::memory_order_relaxed);
        });
    };
    for (auto &part : batch.parts)
        add(batch.work->parts.emplace_back(), [&](Record &r) {
            uint64_t id = r.id;
            auto created = r.created;
            r = std::move(part.record);
            r.id = id;
            r.created = created;
        });
    add(ticket, [&](Record &r) {
        fill_record(whole, r);
        r.p2p = !batch.collectives;
        r.stack = batch.work->stack;
    });
    return ticket;
}

void Issuer::fill_record(const Op &op, Record &r) const
{
    r.group = engine_->recorded_group;
    r.name = op.name;
    r.peer = op.peer;
    r.p2p = op.p2p();
    r.timeout_ms = (op.timeout == c10d::kUnsetTimeout ? engine_->timeout : op.timeout).count();
    r.in.set(op.in, op.in_copies);
    r.out.set(op.out, op.out_copies);
    if (C10_UNLIKELY(op.coding || CodingScope::any() || r.coding))
        r.coding = op.coding ? op.coding : CodingScope::of_thread();
}

Record Issuer::record_of(const Op &op) const
{
    Record r;
    fill_record(op, r);
    return r;
}

void Issuer::annotate(const Op &op, uint64_t seq) const
{
    const at::Tensor *any = op.in ? op.in : op.out;
    const auto &ranks = options_->global_ranks_in_group;
    int start = ranks.empty() ? 0 : static_cast<int>(ranks[0]);
    int stride = ranks.size() > 1 ? static_cast<int>(ranks[1] - ranks[0]) : 1;
    auto one = [](const at::Tensor *t) { return t ? Tensors{*t} : Tensors(); };
    auto elems = [](const at::Tensor *t, int64_t copies) { return t ? t->numel() * std::max<int64_t>(copies, 1) : 0; };

    RECORD_PARAM_COMMS_DATA(std::make_tuple(static_cast<int64_t>(seq), op.p2p()),
                            std::make_tuple(engine_->name, getGroupDesc()), one(op.in), one(op.out),
                            op.p2p() ? op.peer : rank_, op.name, elems(op.in, op.in_copies),
                            elems(op.out, op.out_copies), any ? any->scalar_type() : at::kByte, std::vector<int64_t>(),
                            std::vector<int64_t>(), start, stride, size_);
}

} // namespace weft_torch
