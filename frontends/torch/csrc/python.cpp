/* SPDX-License-Identifier: BSD-3-Clause */
#include "python.hpp"

#include <torch/csrc/utils/pybind.h>

namespace weft_torch
{

namespace py = pybind11;

bool python_runs()
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

void check_signals()
{
    if (!main_thread() || !Py_IsInitialized())
        return;
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() < 0)
        throw py::error_already_set();
}

void dump_on_failure()
{
    static std::atomic<bool> done{false};
    const char *prefix = std::getenv("TORCH_FR_DUMP_TEMP_FILE");

    if (!prefix || !*prefix || !python_runs() || done.exchange(true))
        return;
    py::gil_scoped_acquire gil;
    try {
        py::module_::import("weft.flight_recorder").attr("_dump_on_failure")();
    } catch (py::error_already_set &problem) {
        problem.discard_as_unraisable("weft: flight recorder");
    }
}

/* ---- Stacks ---- */

/* Code objects of stacks that are gone: whoever lets go of a stack may not hold the interpreter's lock. Under Fork::kStacks. */
static std::vector<PyCodeObject *> dead;

static void bury()
{
    std::vector<PyCodeObject *> mine;
    {
        std::lock_guard<std::mutex> guard(Fork::lock(Fork::kStacks));
        mine.swap(dead);
    }
    for (PyCodeObject *code : mine)
        Py_DECREF(code);
}

static int position(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return PyFrame_GetLineNumber(frame);
#endif
}

std::shared_ptr<Stack> Stack::capture()
{
    if (!python_runs() || !PyGILState_GetThisThreadState())
        return nullptr;
    py::gil_scoped_acquire gil;
    auto stack = std::make_shared<Stack>();

    bury();
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame && stack->frames_.size() < kFrames) {
        stack->frames_.emplace_back(PyFrame_GetCode(frame), position(frame));
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return stack;
}

Stack::~Stack()
{
    std::lock_guard<std::mutex> guard(Fork::lock(Fork::kStacks));
    for (auto [code, where] : frames_)
        dead.push_back(code);
}

PyObject *Stack::frames() const
{
    py::list list;

    for (auto [code, where] : frames_)
        list.append(py::make_tuple(py::handle(reinterpret_cast<PyObject *>(code)), where));
    return list.release().ptr();
}

std::string Stack::describe(const std::shared_ptr<Stack> &stack)
{
    if (!stack || !python_runs())
        return "";
    py::gil_scoped_acquire gil;
    auto frames = py::reinterpret_steal<py::list>(stack->frames());
    return py::module_::import("weft._stack").attr("issuer")(frames).cast<std::string>();
}

/* ---- Blocks ---- */

std::shared_ptr<Block> Block::here(const std::string &group)
{
#if PY_VERSION_HEX >= 0x030B0000
    if (!python_runs() || !PyGILState_GetThisThreadState())
        return nullptr;
    py::gil_scoped_acquire gil;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    auto generator = py::reinterpret_steal<py::object>(frame ? PyFrame_GetGenerator(frame) : nullptr);
    Py_XDECREF(frame);
    if (generator && py::hasattr(generator, "gi_frame"))
        return std::make_shared<Block>(
            py::module_::import("weft._coalescing").attr("watched")(generator, group).release().ptr());
#endif
    return nullptr;
}

Block::~Block()
{
    if (!python_runs())
        return;
    py::gil_scoped_acquire gil;
    Py_XDECREF(reference_);
}

bool Block::left() const
{
    if (!python_runs())
        return true;
    py::gil_scoped_acquire gil;
    py::object generator = py::reinterpret_borrow<py::object>(reference_)();
    return generator.is_none() || generator.attr("gi_frame").is_none();
}

} // namespace weft_torch
