/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in Python an operation was issued. Capturing is references to code objects and positions in them, which weft/_stack.py
 * makes names and lines of when somebody asks. */
#pragma once

#include <torch/csrc/distributed/c10d/debug.h>
#include "runtime.hpp"

namespace weft_torch
{

inline bool python_runs()
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

class Stack
{
public:
    /* NULL in a thread of C++ alone, as autograd's. */
    static std::shared_ptr<Stack> capture()
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
    ~Stack()
    {
        std::lock_guard<std::mutex> guard(Fork::lock(Fork::kStacks));
        for (auto [code, where] : frames_)
            dead.push_back(code);
    }
    /* With the interpreter's lock: (code, position), innermost first. */
    py::list frames() const
    {
        py::list list;

        for (auto [code, where] : frames_)
            list.append(py::make_tuple(py::handle(reinterpret_cast<PyObject *>(code)), where));
        return list;
    }
    /* "file.py:12 in step", without the frames of torch; "" if unknown. */
    static std::string describe(const std::shared_ptr<Stack> &stack)
    {
        if (!stack || !python_runs())
            return "";
        py::gil_scoped_acquire gil;
        return py::module_::import("weft._stack").attr("issuer")(stack->frames()).cast<std::string>();
    }

private:
    static constexpr size_t kFrames = 24;

    static int position(PyFrameObject *frame)
    {
#if PY_VERSION_HEX >= 0x030B0000
        return PyFrame_GetLasti(frame);
#else
        return PyFrame_GetLineNumber(frame);
#endif
    }
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

    /* Whoever lets go of a stack may not hold the interpreter's lock. */
    static inline std::vector<PyCodeObject *> dead;
    c10::SmallVector<std::pair<PyCodeObject *, int>, kFrames> frames_;
};

using StackPtr = std::shared_ptr<Stack>;

/* The generator that runs in the calling frame: torch's coalescing manager, whose with-block may be left by an exception without
 * a word to the backend. */
class Block
{
public:
    /* NULL: it is no generator, or nobody could tell. */
    static std::shared_ptr<Block> here()
    {
#if PY_VERSION_HEX >= 0x030B0000
        if (!python_runs() || !PyGILState_GetThisThreadState())
            return nullptr;
        py::gil_scoped_acquire gil;
        PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
        auto generator = py::reinterpret_steal<py::object>(frame ? PyFrame_GetGenerator(frame) : nullptr);
        Py_XDECREF(frame);
        if (generator && py::hasattr(generator, "gi_frame"))
            return std::make_shared<Block>(PyWeakref_NewRef(generator.ptr(), nullptr));
#endif
        return nullptr;
    }
    explicit Block(PyObject *reference) : reference_(reference) {}
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    ~Block()
    {
        if (!python_runs())
            return;
        py::gil_scoped_acquire gil;
        Py_XDECREF(reference_);
    }
    /* Its generator has ended, which it does not before the batch's end. */
    bool left() const
    {
        if (!python_runs())
            return true;
        py::gil_scoped_acquire gil;
        py::object generator = py::reinterpret_borrow<py::object>(reference_)();
        return generator.is_none() || generator.attr("gi_frame").is_none();
    }

private:
    PyObject *reference_;
};

using BlockPtr = std::shared_ptr<Block>;

/* 0: never, 1: asynchronous operations, 2: all; WEFT_TORCH_STACK, or from TORCH_DISTRIBUTED_DEBUG. */
inline int stack_level()
{
    static const int level = [] {
        const char *set = std::getenv("WEFT_TORCH_STACK");
        return set && *set ? std::atoi(set) : c10d::debug_level() == c10d::DebugLevel::Off ? 1 : 2;
    }();
    return level;
}

} // namespace weft_torch
