/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in Python an operation was issued. Capturing is references to code objects and positions in them; names and lines are
 * looked up when somebody asks. */
#include "runtime.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include <c10/util/SmallVector.h>
#include <torch/csrc/utils/pybind.h>

namespace weft_torch
{

namespace
{
constexpr int kFrames = 24;

std::mutex dead_lock;
std::vector<PyObject *> dead; /* whoever lets go of a stack may not hold the interpreter's lock */

bool is_finalizing()
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

void bury()
{
    std::vector<PyObject *> mine;
    {
        std::lock_guard<std::mutex> guard(dead_lock);
        mine.swap(dead);
    }
    for (PyObject *p : mine)
        Py_DECREF(p);
}

int position(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(frame);
#else
    return PyFrame_GetLineNumber(frame);
#endif
}

int line_of(PyCodeObject *code, int where)
{
#if PY_VERSION_HEX >= 0x030B0000
    return PyCode_Addr2Line(code, where);
#else
    return where;
#endif
}

/* The folder of the package torch, with the slash. */
const std::string &torch_folder()
{
    static const std::string folder = [] {
        auto file = pybind11::module_::import("torch").attr("__file__").cast<std::string>();
        return file.substr(0, file.rfind('/') + 1);
    }();
    return folder;
}
} // namespace

struct Stack {
    struct Frame {
        PyCodeObject *code;
        int where;
    };
    c10::SmallVector<Frame, kFrames> frames;

    ~Stack()
    {
        std::lock_guard<std::mutex> guard(dead_lock);
        for (const Frame &f : frames)
            dead.push_back(reinterpret_cast<PyObject *>(f.code));
    }
};

std::shared_ptr<Stack> capture_stack()
{
    if (!Py_IsInitialized() || is_finalizing() || !PyGILState_GetThisThreadState())
        return nullptr; /* a thread of C++ alone, as autograd's */
    pybind11::gil_scoped_acquire gil;
    auto stack = std::make_shared<Stack>();

    if (C10_UNLIKELY(!dead.empty()))
        bury();
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame && stack->frames.size() < kFrames) {
        stack->frames.push_back({PyFrame_GetCode(frame), position(frame)});
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return stack;
}

std::vector<std::tuple<std::string, int64_t, std::string>> frames_of(const std::shared_ptr<Stack> &stack)
{
    std::vector<std::tuple<std::string, int64_t, std::string>> frames;

    if (!stack || !Py_IsInitialized() || is_finalizing())
        return frames;
    pybind11::gil_scoped_acquire gil;
    for (const auto &f : stack->frames) {
        auto code = pybind11::handle(reinterpret_cast<PyObject *>(f.code));
        frames.emplace_back(code.attr("co_filename").cast<std::string>(), line_of(f.code, f.where),
                            code.attr("co_name").cast<std::string>());
    }
    return frames;
}

std::string describe_stack(const std::shared_ptr<Stack> &stack)
{
    auto frames = frames_of(stack);

    if (frames.empty())
        return "";
    pybind11::gil_scoped_acquire gil;
    const std::string &torch = torch_folder();
    auto mine = [&](const auto &f) { return std::get<0>(f).compare(0, torch.size(), torch) != 0; };
    auto it = std::find_if(frames.begin(), frames.end(), mine);
    const auto &[file, line, function] = it == frames.end() ? frames.back() : *it;
    return c10::str(file, ":", line, " in ", function);
}

void dump_on_failure()
{
    static std::atomic<bool> done{false};
    const char *prefix = std::getenv("TORCH_FR_DUMP_TEMP_FILE");

    if (!prefix || !*prefix || !Py_IsInitialized() || is_finalizing() || done.exchange(true))
        return;
    pybind11::gil_scoped_acquire gil;
    try {
        pybind11::module_::import("weft.flight_recorder").attr("_dump_on_failure")();
    } catch (pybind11::error_already_set &problem) {
        problem.discard_as_unraisable("weft: flight recorder");
    }
}

} // namespace weft_torch
