/* SPDX-License-Identifier: BSD-3-Clause */
/* What Python sees of the adapter: weft._C. */
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include "backend.hpp"
#include "interrupt.hpp"
#include "runtime.hpp"

namespace py = pybind11;

namespace weft_torch
{

/* ---- The flight recorder, as Python objects ---- */

static const char *state_name(RecordState state)
{
    switch (state) {
    case RecordState::Completed:
        return "completed";
    case RecordState::Started:
        return "started";
    case RecordState::Failed: /* PyTorch's analyzer knows no failures: it never completed */
        return "started";
    default:
        return "scheduled";
    }
}

static py::list shapes(const Shape &shape)
{
    py::list sizes;

    if (shape.dtype < 0)
        return sizes;
    py::list dims;
    for (size_t i = 0; i < shape.ndims; i++)
        dims.append(shape.dims[i]);
    sizes.append(dims);
    return sizes;
}

static py::list types(const Shape &shape)
{
    py::list names;

    if (shape.dtype >= 0)
        names.append(c10::toString(static_cast<at::ScalarType>(shape.dtype)));
    return names;
}

static std::string title(const Record &r, const RecordedGroup &group)
{
    if (r.p2p && std::string(r.name) == "send")
        return c10::str("send ", group.rank, "->", r.peer);
    if (r.p2p)
        return c10::str("recv ", group.rank, "<-", r.peer);
    return r.name;
}

static py::dict entry(const Record &r, const RecordedGroup &group,
                      const std::function<c10::time_t(c10::approx_time_t)> &to_ns)
{
    RecordState state = r.state.load(std::memory_order_acquire);
    py::dict d;

    d["record_id"] = r.id;
    d["pg_id"] = r.group;
    d["process_group"] = py::make_tuple(group.name, group.desc);
    d["collective_seq_id"] = r.seq;
    d["p2p_seq_id"] = r.p2p_seq;
    d["op_id"] = r.seq + r.p2p_seq;
    d["profiling_name"] = title(r, group);
    d["time_created_ns"] = to_ns(r.created);
    d["input_sizes"] = shapes(r.in);
    d["input_dtypes"] = types(r.in);
    d["output_sizes"] = shapes(r.out);
    d["output_dtypes"] = types(r.out);
    d["state"] = state_name(state);
    d["failed"] = state == RecordState::Failed;
    d["time_discovered_started_ns"] = to_ns(r.created);
    bool done = state == RecordState::Completed || state == RecordState::Failed;
    d["time_discovered_completed_ns"] = done ? py::cast(to_ns(r.completed)) : py::none();
    if (done)
        d["duration_ms"] = static_cast<double>(to_ns(r.completed) - to_ns(r.created)) / 1e6;
    d["retired"] = done;
    d["timeout_ms"] = r.timeout_ms;
    d["is_p2p"] = r.p2p;
    py::list frames;
    for (const auto &[file, line, function] : frames_of(r.stack)) {
        py::dict f;
        f["filename"] = file;
        f["line"] = line;
        f["name"] = function;
        frames.append(f);
    }
    d["frames"] = frames;
    return d;
}

static py::dict flight_record()
{
    Recorder &recorder = Recorder::get();
    auto groups = recorder.groups();
    auto to_ns = recorder.clock();
    std::vector<std::unique_ptr<Record>> copies;
    py::list entries;
    py::dict config;

    {
        py::gil_scoped_release nogil; /* the recorder's lock is taken by threads that have none */
        recorder.each([&](const Record &r) {
            auto c = std::make_unique<Record>();
            c->id = r.id, c->seq = r.seq, c->p2p_seq = r.p2p_seq, c->name = r.name, c->group = r.group,
            c->peer = r.peer;
            c->p2p = r.p2p, c->created = r.created, c->timeout_ms = r.timeout_ms, c->in = r.in, c->out = r.out;
            c->stack = r.stack;
            c->completed = r.completed.load(), c->state = r.state.load();
            copies.push_back(std::move(c));
        });
    }
    for (const auto &c : copies)
        entries.append(entry(*c, groups.at(c->group), to_ns));
    for (const auto &g : groups) {
        std::string ranks = "[";
        for (size_t i = 0; i < g.ranks.size(); i++)
            ranks += (i ? ", " : "") + std::to_string(g.ranks[i]);
        py::dict d;
        d["name"] = g.name;
        d["desc"] = g.desc;
        d["ranks"] = ranks + "]";
        config[py::str(g.name)] = d;
    }
    py::dict all;
    all["entries"] = entries;
    all["pg_config"] = config;
    return all;
}

/* ---- Introspection ---- */

static py::list settings()
{
    py::list rows;
    auto add = [](void *arg, const char *name, const char *value, const char *fallback, const char *origin,
                  const char *help) {
        static_cast<py::list *>(arg)->append(
            py::make_tuple(name, value ? value : "", fallback ? fallback : "", origin, help));
    };

    weft_context_settings(context(), add, &rows);
    return rows;
}

static py::list transports()
{
    py::list rows;
    auto add = [](void *arg, const char *, const char *name, const char *path) {
        static_cast<py::list *>(arg)->append(py::make_tuple(name, path ? path : ""));
    };

    weft_context_plugins(context(), add, &rows);
    return rows;
}

static py::list algorithms()
{
    py::list rows;
    auto add = [](void *arg, const char *collective, const char *algorithm, const char *summary) {
        static_cast<py::list *>(arg)->append(py::make_tuple(collective, algorithm, summary));
    };

    weft_algorithm_list(add, &rows);
    return rows;
}

static Backend &weft_backend(c10d::Backend &backend)
{
    auto *mine = dynamic_cast<Backend *>(&backend);

    TORCH_CHECK(mine, "this group's backend is ", backend.getBackendName(), ", not weft");
    return *mine;
}

static void dump_comm(c10d::Backend &backend, const std::string &path)
{
    const EnginePtr &engine = weft_backend(backend).engine();
    std::lock_guard<std::mutex> held(engine->lock);
    weft_status st = weft_comm_dump(engine->open_comm("dump"), path.c_str());

    if (st < 0)
        throw_thread_error("dump", st);
}

} // namespace weft_torch

PYBIND11_MODULE(_C, m)
{
    using namespace weft_torch;
    using c10d::Store;

    py::module_::import("torch._C._distributed_c10d");
    m.doc() = "weft as a torch.distributed backend: the compiled part";
    py::class_<WeftOptions, c10d::Backend::Options, c10::intrusive_ptr<WeftOptions>>(m, "Options",
                                                                                     "Options of a weft group.")
        .def(py::init([](milliseconds timeout) { return c10::make_intrusive<WeftOptions>(timeout); }),
             py::arg("timeout") = kBackendDefaultTimeout);
    py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(m, "Backend", "A group's weft communicator.")
        .def(py::init([](const c10::intrusive_ptr<Store> &store, int rank, int size,
                         const c10::intrusive_ptr<WeftOptions> &options) {
                 return c10::make_intrusive<Backend>(store, rank, size, options);
             }),
             py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
             py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("options", &Backend::getBackendOptions, "The group's weft.Options.")
        .def_property_readonly("sequence_number", &Backend::getSequenceNumberForGroup, "Collectives that were issued.")
        .def("split", &Backend::split, py::arg("store"), py::arg("ranks"), py::arg("options"),
             py::call_guard<py::gil_scoped_release>(),
             "A group of some of the ranks, who alone need call; None for others.")
        .def(
            "monitored_barrier",
            [](Backend &backend, std::optional<milliseconds> timeout, bool wait_all_ranks) {
                c10d::BarrierOptions options;
                if (timeout)
                    options.timeout = *timeout;
                backend.monitoredBarrier(options, wait_all_ranks);
            },
            py::arg("timeout") = py::none(), py::arg("wait_all_ranks") = false,
            py::call_guard<py::gil_scoped_release>());
    m.def(
        "empty",
        [](std::vector<int64_t> sizes, py::object dtype) {
            auto type = reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
            size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
            auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                                 allocator()->allocate(bytes), allocator().get(), true);
            at::Tensor flat =
                at::empty({0}, at::dtype(type)).set_(c10::Storage(storage), 0, {c10::multiply_integers(sizes)}, {1});
            return flat.view(sizes);
        },
        py::arg("sizes"), py::arg("dtype"));
    py::class_<Registration>(m, "Registration", "Memory of a tensor that other ranks of the host reach in place.")
        .def(py::init<const at::Tensor &>(), py::arg("tensor"))
        .def("release", &Registration::release);
    m.def("watch_signals", &watch_signals);
    m.def("memory_reserved", &allocator_reserved);
    m.def("flight_record", &flight_record);
    m.def("set_recording", [](bool on) { Recorder::get().set_enabled(on); });
    m.def("recording", [] { return Recorder::get().enabled(); });
    m.def("clear_record", [] { Recorder::get().clear(); });
    m.def("settings", &settings);
    m.def("transports", &transports);
    m.def("algorithms", &algorithms);
    m.def("version", &weft_version);
    m.def("dump_comm", &dump_comm, py::call_guard<py::gil_scoped_release>());
}
