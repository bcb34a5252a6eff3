/* SPDX-License-Identifier: BSD-3-Clause */
/* What Python sees of the adapter: weft._C. */
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/csrc/utils/pybind.h>
#include "backend.hpp"
#include "hooks.hpp"
#include "memory.hpp"
#include "residuals.hpp"
#include "zero.hpp"

namespace weft_torch
{

namespace py = pybind11;

/* ---- What Python makes dictionaries of: rows of plain values ---- */

static py::object shape(const Shape &s)
{
    if (s.dtype < 0)
        return py::none();
    return py::make_tuple(c10::toString(static_cast<at::ScalarType>(s.dtype)),
                          std::vector<int64_t>(s.dims.begin(), s.dims.end()));
}

static py::tuple flight_record()
{
    py::list entries, named;
    auto to_ns = Recorder::get().clock();
    auto [records, groups] = [] {
        py::gil_scoped_release nogil; /* the recorder's lock is taken by threads that have none */
        return Recorder::get().copy();
    }();

    for (const Record &r : records)
        entries.append(py::make_tuple(r.id, r.group, r.seq, r.p2p_seq, r.name, r.peer, r.p2p, static_cast<int>(r.state),
                                      to_ns(r.created), to_ns(r.completed), r.timeout_ms, shape(r.in), shape(r.out),
                                      r.stack ? py::reinterpret_steal<py::list>(r.stack->frames()) : py::list(),
                                      r.coding ? r.coding->codec() : nullptr,
                                      r.coding ? r.coding->tensors() : std::vector<uint64_t>()));
    for (const RecordedGroup &g : groups)
        named.append(py::make_tuple(g.name, g.ranks, g.rank));
    return py::make_tuple(entries, named);
}

/* For the library's visitors: their strings as a list of tuples. Nothing may be thrown through the library, which is C. */
using Rows = std::vector<std::vector<std::string>>;

struct RowsOrFailure {
    Rows rows;
    std::exception_ptr failure;
};

template <class... Text> static void add_row(void *arg, Text... text) noexcept
{
    auto *to = static_cast<RowsOrFailure *>(arg);
    try {
        to->rows.push_back({text ? text : "" ...});
    } catch (...) {
        to->failure = std::current_exception();
    }
}

static void add_plugin(void *arg, const weft_plugin_info *plugin) noexcept
{
    add_row(arg, plugin->kind, plugin->name, plugin->path, plugin->refusal);
}

template <class F> static py::list rows_of(F visit)
{
    RowsOrFailure got;
    py::list list;

    visit(&got);
    if (got.failure)
        std::rethrow_exception(got.failure);
    for (const auto &row : got.rows)
        list.append(py::tuple(py::cast(row)));
    return list;
}

static at::Tensor empty_of(const std::vector<int64_t> &sizes, const py::object &dtype)
{
    uint64_t elems = 1;

    TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()),
                     "weft.mem.empty: dtype must be a torch.dtype, such as torch.float32, not ",
                     py::repr(dtype).cast<std::string>());
    for (int64_t n : sizes)
        TORCH_CHECK_VALUE(n >= 0, "weft.mem.empty: a size of ", n, " in ", c10::IntArrayRef(sizes),
                          ": must be 0 or more");
    auto type = reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
    TORCH_CHECK_VALUE(!c10::safe_multiplies_u64(sizes, &elems) && elems <= INT64_MAX / c10::elementSize(type),
                      "weft.mem.empty: ", c10::IntArrayRef(sizes), " are more bytes than there are addresses");
    return empty(static_cast<int64_t>(elems), at::dtype(type)).view(sizes);
}

static size_t memory_reserved()
{
    size_t bytes = 0;
    weft_mem_pool_reserved(context(), &bytes);
    return bytes;
}

/* Whether a job key is configured, what is to be said of it, and which setting about keys is misspelt; "": none. */
static std::tuple<int, std::string, std::string> security()
{
    weft_security found = WEFT_SECURITY_INIT;

    check_status(weft_context_security(context(), &found), "security");
    return {static_cast<int>(found.key), found.text, found.misspelt ? found.misspelt : ""};
}

/* ---- Questions to a communicator: fn(comm, its engine) with the group's lock held ---- */

template <class F> static void with_comm(c10d::Backend &backend, const char *what, F fn)
{
    auto *mine = dynamic_cast<Backend *>(&backend);
    TORCH_CHECK(mine, "this group's backend is ", backend.getBackendName(), ", not weft");
    const EnginePtr &engine = mine->engine();
    std::lock_guard<std::mutex> held(engine->lock);
    check_status(fn(engine->open_comm(what), *engine), what);
}

static std::string topology(c10d::Backend &backend, const std::string &format)
{
    const char *text = "";
    with_comm(backend, "topology",
              [&](weft_comm *comm, Engine &) { return weft_comm_topology(comm, format.c_str(), &text); });
    return text;
}

using Peer =
    std::tuple<std::string, int, std::string, std::string, std::string>; /* host, node, transport, left out, state */

static std::vector<Peer> peers(c10d::Backend &backend)
{
    std::vector<Peer> all;
    with_comm(backend, "peers", [&](weft_comm *comm, Engine &engine) {
        for (int r = 0; r < engine.size; r++) {
            weft_peer_info info = WEFT_PEER_INFO_INIT;
            weft_status st = weft_comm_peer(comm, r, &info);
            if (st < 0)
                return st;
            all.emplace_back(info.host, info.node, info.transport, info.left_out, info.state);
        }
        return WEFT_SUCCESS;
    });
    return all;
}

static std::string newest_algorithm(c10d::Backend &backend)
{
    std::string name;
    with_comm(backend, "newest_algorithm", [&](weft_comm *comm, Engine &) {
        name = Choices::newest_algorithm(comm);
        return WEFT_SUCCESS;
    });
    return name;
}

static std::pair<std::vector<int>, std::string> mesh_order(c10d::Backend &backend,
                                                           const std::vector<std::string> &names,
                                                           const std::vector<int> &extents,
                                                           const std::vector<double> &traffic)
{
    std::vector<weft_mesh_axis> axes(names.size(), WEFT_MESH_AXIS_INIT);
    std::vector<int> order;
    const char *reasons = "";

    TORCH_CHECK(names.size() == extents.size() && names.size() == traffic.size(),
                "mesh_order: lists of different lengths");
    for (size_t i = 0; i < names.size(); i++) {
        axes[i].name = names[i].c_str();
        axes[i].extent = extents[i];
        axes[i].traffic = traffic[i];
    }
    with_comm(backend, "mesh", [&](weft_comm *comm, Engine &engine) {
        order.resize(static_cast<size_t>(engine.size));
        return weft_comm_mesh(comm, axes.data(), axes.size(), order.data(), &reasons);
    });
    return {order, reasons};
}

/* ---- Options ---- */

/* What weft/_algorithms.py makes of "all_reduce:ring,broadcast:chain" or a dictionary. */
static Algorithms algorithms_of(const py::object &given)
{
    using Parsed = std::vector<std::pair<std::string, std::string>>;
    return Algorithms::of(py::module_::import("weft._algorithms").attr("parsed")(given).cast<Parsed>());
}

/* pybind11's own words for a wrong argument are its signature. */
static std::optional<milliseconds> timeout_of(const char *what, const py::object &given)
{
    try {
        return given.cast<std::optional<milliseconds>>();
    } catch (const py::cast_error &) {
        TORCH_CHECK_TYPE(false, what,
                         ": timeout must be a datetime.timedelta, such as timedelta(seconds=30), or None, not ",
                         py::repr(given).cast<std::string>());
    }
}

static void no_more(const char *what, const char *accepted, const py::args &more, const py::kwargs &named)
{
    TORCH_CHECK_TYPE(more.empty(), what, " takes ", accepted,
                     "; one more was given: ", py::repr(py::object(more[0])).cast<std::string>());
    for (auto item : named)
        TORCH_CHECK_TYPE(false, what, " takes ", accepted, "; not ", item.first.cast<std::string>());
}

static void monitored_barrier_of(Backend &backend, const py::object &timeout, const py::object &wait_all_ranks)
{
    c10d::BarrierOptions options;

    options.timeout = timeout_of("weft.monitored_barrier", timeout).value_or(options.timeout);
    TORCH_CHECK_TYPE(PyBool_Check(wait_all_ranks.ptr()),
                     "weft.monitored_barrier: wait_all_ranks must be True or False, not ",
                     py::repr(wait_all_ranks).cast<std::string>());
    bool all = wait_all_ranks.cast<bool>();
    py::gil_scoped_release nogil;
    backend.monitoredBarrier(options, all);
}

static c10::intrusive_ptr<WeftOptions> make_options(const py::object &given_timeout, const py::object &algorithm,
                                                    const py::args &more, const py::kwargs &named)
{
    no_more("weft.Options", "timeout and algorithm", more, named);
    std::optional<milliseconds> timeout = timeout_of("weft.Options", given_timeout);
    auto options = c10::make_intrusive<WeftOptions>(timeout.value_or(kBackendDefaultTimeout));

    TORCH_CHECK_VALUE(!timeout || timeout->count() > 0, "weft.Options: a timeout of ", timeout->count(),
                      " ms: must be above 0");
    options->timeout_given = timeout.has_value();
    if (!algorithm.is_none())
        options->algorithms = algorithms_of(algorithm);
    return options;
}

/* Of a `with` block: what enter_codec() and enter_algorithms() return. */
template <class T> static void scope_class(py::module_ &m, const char *name, const char *doc)
{
    py::class_<Scope<T>, std::shared_ptr<Scope<T>>>(m, name, doc)
        .def("leave", &Scope<T>::leave, "Calls have no longer what it names, in the thread that entered it.");
}

/* ---- Codecs and hooks ---- */

static std::shared_ptr<Coding> make_codec(const std::optional<std::string> &codec, uint64_t tensor)
{
    return std::make_shared<Coding>(codec ? codec->c_str() : nullptr, std::vector<uint64_t>{tensor});
}

static uint64_t new_tensors(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    return ++weft_of(backend)->engine()->states * kTensorsOfState;
}

static Residuals residuals_of(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    return Residuals(*weft_of(backend));
}

static std::shared_ptr<HookState> make_state(const c10::intrusive_ptr<c10d::Backend> &backend,
                                             std::optional<std::string> codec, int64_t min_elements, bool vectors,
                                             bool transport_memory)
{
    return std::make_shared<HookState>(backend, std::move(codec),
                                       HookState::Rules{min_elements, vectors, transport_memory});
}

static WorkBase average_bucket(const c10::intrusive_ptr<c10d::Backend> &backend, c10d::GradBucket &bucket,
                               const std::string &codec)
{
    return average_whole(*weft_of(backend), bucket, codec.c_str());
}

static void register_hook(c10d::Reducer &reducer, const std::shared_ptr<HookState> &state)
{
    reducer.register_comm_hook(std::make_unique<CommHook>(state));
}

} // namespace weft_torch

PYBIND11_MODULE(_C, m)
{
    using namespace weft_torch;
    using nogil = py::call_guard<py::gil_scoped_release>;

    py::module_::import("torch._C._distributed_c10d");
    Fork::child_hook = BlockingCall::forget;
    Fork::watch();
    m.doc() = "weft as a torch.distributed backend: the compiled part";
    py::class_<WeftOptions, c10d::Backend::Options, c10::intrusive_ptr<WeftOptions>>(m, "Options",
                                                                                     "Options of a weft group.")
        .def(py::init(&make_options), py::arg("timeout") = py::none(), py::arg("algorithm") = py::none())
        .def_property_readonly(
            "algorithm", [](const WeftOptions &options) { return options.algorithms.text(); },
            "Algorithms that were named, \"all_reduce:ring\"; \"\": none.")
        .def_readonly("timeout_given", &WeftOptions::timeout_given)
        .def("__copy__", &WeftOptions::copy)
        .def("__deepcopy__", [](const WeftOptions &options, const py::dict &) { return options.copy(); });
    py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(m, "Backend", "A group's weft communicator.")
        .def(py::init([](const StorePtr &store, int rank, int size, const c10::intrusive_ptr<WeftOptions> &options) {
                 return c10::make_intrusive<Backend>(store, rank, size, options);
             }),
             py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"), nogil())
        .def_property_readonly("options", &Backend::getBackendOptions, "The group's weft.Options.")
        .def_property_readonly("sequence_number", &Backend::getSequenceNumberForGroup, "Collectives that were issued.")
        .def_property_readonly("operations_under_way", &Backend::operations_under_way,
                               "Operations that are not known to have completed.")
        .def("split", &Backend::split, py::arg("store"), py::arg("ranks"), py::arg("options"), nogil(),
             "A group of some of the ranks, who alone need call; None for others.")
        .def(
            "perform_nocolor_split", [](Backend &, const py::object &) {}, py::arg("device"),
            "What torch calls on ranks outside of a new group: they need not take part.")
        .def(
            "eager_connect_single_device", [](Backend &, const py::object &) {}, py::arg("device") = py::none(),
            "A group is connected when it exists.")
        .def("monitored_barrier", &monitored_barrier_of, py::arg("timeout") = py::none(),
             py::arg("wait_all_ranks") = false, "Wait until every rank has called, and name those that do not come.");
    py::class_<ZeroUnit>(
        m, "ZeroUnit",
        "A unit of weft.zero: parameters that are views of libweft_zero's memory. Calls return statuses.")
        .def(py::init<const std::vector<uintptr_t> &, uintptr_t, int>(), py::arg("calls"), py::arg("engine"),
             py::arg("unit"))
        .def(
            "bind", &ZeroUnit::bind, py::arg("param"), py::arg("tensor"), py::arg("dtype"), py::arg("refusal"),
            "Make the tensor a view of the parameter's memory; `refusal` is said to who reads it when it is not gathered.")
        .def("pre_forward", &ZeroUnit::pre_forward, nogil())
        .def("pre_backward", &ZeroUnit::pre_backward, nogil())
        .def("post_forward", &ZeroUnit::post_forward, nogil())
        .def("post_backward", &ZeroUnit::post_backward, nogil())
        .def("touch", &ZeroUnit::touch, nogil(), "A pass that ends at once.")
        .def("grad_add", &ZeroUnit::grad_add, py::arg("param"), py::arg("grad"), nogil())
        .def("hide", &ZeroUnit::hide, py::arg("why"),
             "Parameters are on their way to their place, until a pass or wait().")
        .def("wait", &ZeroUnit::wait, nogil())
        .def("lend", &ZeroUnit::lend, py::arg("param"), py::arg("memory"),
             "Show a parameter in this memory, until restore().")
        .def("restore", &ZeroUnit::restore, py::arg("param"), nogil())
        .def_property_readonly("kept", &ZeroUnit::kept, "Its parameters have a place of their own.")
        .def_property_readonly("shown", &ZeroUnit::shown, "They can be read.")
        .def_property_readonly("passes", &ZeroUnit::passes, "That have begun and not ended.");
    py::class_<Registration>(m, "Registration", "Memory of a tensor that other ranks of the host reach in place.")
        .def(py::init<const at::Tensor &>(), py::arg("tensor"))
        .def("release", &Registration::release);
    m.def("empty", &empty_of, py::arg("sizes"), py::arg("dtype"));
    m.def("memory_reserved", &memory_reserved);
    scope_class<Algorithms>(m, "AlgorithmsScope", "A block of weft.algorithm that a thread is in.");
    m.def(
        "enter_algorithms",
        [](const py::object &algorithm) {
            return AlgorithmsScope::enter(std::make_shared<Algorithms>(algorithms_of(algorithm)));
        },
        py::arg("algorithm"));
    py::class_<Coding, std::shared_ptr<Coding>>(m, "Codec", "A codec for calls, and whose residual they have.")
        .def(py::init(&make_codec), py::arg("codec"), py::arg("tensor") = 0);
    scope_class<Coding>(m, "CodecScope", "A block of weft.codec that a thread is in.");
    m.def(
        "enter_codec", [](const std::shared_ptr<Coding> &codec) { return CodingScope::enter(codec); },
        py::arg("codec"));
    m.def("new_tensors", &new_tensors, py::arg("backend"));
    using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
    m.def(
        "residual_bytes", [](const BackendPtr &backend) { return residuals_of(backend).bytes(); }, py::arg("backend"),
        nogil());
    m.def(
        "clear_residual", [](const BackendPtr &backend, uint64_t tensor) { residuals_of(backend).clear(tensor); },
        py::arg("backend"), py::arg("tensor"), nogil());
    m.def(
        "scale_residual",
        [](const BackendPtr &backend, uint64_t tensor, double factor) { residuals_of(backend).scale(tensor, factor); },
        py::arg("backend"), py::arg("tensor"), py::arg("factor"), nogil());
    m.def(
        "save_residual", [](const BackendPtr &backend, uint64_t tensor) { return residuals_of(backend).save(tensor); },
        py::arg("backend"), py::arg("tensor"), nogil());
    m.def(
        "load_residual",
        [](const BackendPtr &backend, uint64_t tensor, int64_t elements, const at::Tensor &saved, double factor) {
            residuals_of(backend).load(tensor, elements, saved, factor);
        },
        py::arg("backend"), py::arg("tensor"), py::arg("elements"), py::arg("saved"), py::arg("factor"), nogil());
    py::class_<HookState, std::shared_ptr<HookState>>(m, "HookState",
                                                      "What a model's communication hook knows from step to step.")
        .def(py::init(&make_state), py::arg("backend"), py::arg("codec"), py::arg("min_elements"), py::arg("vectors"),
             py::arg("transport_memory"))
        .def_property_readonly("parameters", &HookState::parameters, "That have a number.")
        .def("number", &HookState::number, py::arg("parameter"), "The parameter's, the next one if it is new.")
        .def("elements", &HookState::elements, py::arg("number"), "Of the parameter; -1: none has this number yet.")
        .def("tensor", &HookState::tensor, py::arg("number"), "As the library knows it.")
        .def(
            "average", [](HookState &state, c10d::GradBucket &bucket) { return state.average(bucket, false); },
            py::arg("bucket"), nogil(), "Start to average the bucket's gradients, in place.");
    m.def("average_bucket", &average_bucket, py::arg("backend"), py::arg("bucket"), py::arg("codec"), nogil());
    m.def("register_hook", &register_hook, py::arg("reducer"), py::arg("state"));
    m.def("interrupt", &BlockingCall::interrupt, nogil());
    m.def("set_wakeup_fd", &Fork::set_wakeup_fd, py::arg("fd"));
    m.def("flight_record", &flight_record);
    m.def("set_recording", [](bool on) { Recorder::get().set_enabled(on); });
    m.def("recording", [] { return Recorder::get().enabled(); });
    m.def("clear_record", [] { Recorder::get().clear(); });
    using text = const char *;
    m.def("settings", [] {
        return rows_of(
            [](auto rows) { weft_context_settings(context(), add_row<text, text, text, text, text>, rows); });
    });
    m.def("plugins", [] { return rows_of([](auto rows) { weft_context_plugins(context(), add_plugin, rows); }); });
    m.def("algorithms",
          [] { return rows_of([](auto rows) { weft_algorithm_list(add_row<text, text, text>, rows); }); });
    m.def("version", &weft_version);
    m.def("security", &security, nogil());
    m.def("topology", &topology, nogil());
    m.def("peers", &peers, nogil());
    m.def("newest_algorithm", &newest_algorithm, py::arg("backend"), nogil());
    m.def("mesh_order", &mesh_order, py::arg("backend"), py::arg("names"), py::arg("extents"), py::arg("traffic"),
          nogil());
}
