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

/* ---- What Python makes dictionaries of: rows of plain values ---- */

static py::object shape(const Shape &s)
{
    if (s.dtype < 0)
        return py::none();
    return py::make_tuple(c10::toString(static_cast<at::ScalarType>(s.dtype)),
                          std::vector<int64_t>(s.dims.begin(), s.dims.begin() + s.ndims));
}

static py::tuple flight_record()
{
    std::vector<Record> records;
    std::vector<RecordedGroup> groups;
    py::list entries, named;
    auto to_ns = Recorder::get().clock();

    {
        py::gil_scoped_release nogil; /* the recorder's lock is taken by threads that have none */
        Recorder::get().copy(&records, &groups);
    }
    for (const Record &r : records)
        entries.append(py::make_tuple(r.id, r.group, r.seq, r.p2p_seq, r.name, r.peer, r.p2p, static_cast<int>(r.state),
                                      to_ns(r.created), to_ns(r.completed), r.timeout_ms, shape(r.in), shape(r.out),
                                      frames_of(r.stack)));
    for (const RecordedGroup &g : groups)
        named.append(py::make_tuple(g.name, g.ranks, g.rank));
    return py::make_tuple(entries, named);
}

/* For the library's visitors: append their strings to a list. */
template <class... Text> static void add_row(void *list, Text... text)
{
    static_cast<py::list *>(list)->append(py::make_tuple(text ? text : "" ...));
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

static std::string topology(c10d::Backend &backend, const std::string &format)
{
    const EnginePtr &engine = weft_backend(backend).engine();
    std::lock_guard<std::mutex> held(engine->lock);
    const char *text = "";
    weft_status st = weft_comm_topology(engine->open_comm("topology"), format.c_str(), &text);

    if (st < 0)
        throw_thread_error("topology", st);
    return text;
}

static std::pair<std::vector<int>, std::string> mesh_order(c10d::Backend &backend,
                                                           const std::vector<std::string> &names,
                                                           const std::vector<int> &extents,
                                                           const std::vector<double> &traffic)
{
    const EnginePtr &engine = weft_backend(backend).engine();
    std::lock_guard<std::mutex> held(engine->lock);
    std::vector<weft_mesh_axis> axes(names.size(), WEFT_MESH_AXIS_INIT);
    std::vector<int> order(static_cast<size_t>(engine->size));
    const char *reasons = "";

    TORCH_CHECK(names.size() == extents.size() && names.size() == traffic.size(),
                "mesh_order: lists of different lengths");
    for (size_t i = 0; i < names.size(); i++) {
        axes[i].name = names[i].c_str();
        axes[i].extent = extents[i];
        axes[i].traffic = traffic[i];
    }
    weft_status st = weft_comm_mesh(engine->open_comm("mesh"), axes.data(), axes.size(), order.data(), &reasons);
    if (st < 0)
        throw_thread_error("mesh", st);
    return {order, reasons};
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
    m.def("empty", [](const std::vector<int64_t> &sizes, const py::object &dtype) {
        auto type = reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type;
        return empty(c10::multiply_integers(sizes), at::dtype(type)).view(sizes);
    });
    py::class_<Registration>(m, "Registration", "Memory of a tensor that other ranks of the host reach in place.")
        .def(py::init<const at::Tensor &>(), py::arg("tensor"))
        .def("release", &Registration::release);
    m.def("interrupt", &interrupt, py::call_guard<py::gil_scoped_release>());
    m.def("memory_reserved", &allocator_reserved);
    m.def("flight_record", &flight_record);
    m.def("set_recording", [](bool on) { Recorder::get().set_enabled(on); });
    m.def("recording", [] { return Recorder::get().enabled(); });
    m.def("clear_record", [] { Recorder::get().clear(); });
    m.def("settings", [] {
        py::list rows;
        using text = const char *;
        weft_context_settings(context(), add_row<text, text, text, text, text>, &rows);
        return rows;
    });
    m.def("plugins", [] {
        py::list rows;
        weft_context_plugins(context(), add_row<const char *, const char *, const char *>, &rows);
        return rows;
    });
    m.def("algorithms", [] {
        py::list rows;
        weft_algorithm_list(add_row<const char *, const char *, const char *>, &rows);
        return rows;
    });
    m.def("version", &weft_version);
    m.def("topology", &topology, py::call_guard<py::gil_scoped_release>());
    m.def("mesh_order", &mesh_order, py::arg("backend"), py::arg("names"), py::arg("extents"), py::arg("traffic"),
          py::call_guard<py::gil_scoped_release>());
    m.def("dump_comm", &dump_comm, py::call_guard<py::gil_scoped_release>());
}
