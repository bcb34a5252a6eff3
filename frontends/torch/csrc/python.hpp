/* SPDX-License-Identifier: BSD-3-Clause */
/* What the adapter asks of Python: whether it runs, its signals, and where in it an operation was issued. No object of Python
 * stands in these declarations, so that the rest is compiled without its headers. */
#pragma once

#include <torch/csrc/distributed/c10d/debug.h>
#include "runtime.hpp"

struct _object;
struct PyCodeObject;

namespace weft_torch
{

/* It does, and may be called: it has begun and is not being ended. */
bool python_runs();

/* In the main thread: let Python's signal handlers run, and throw what they raise. Cheap elsewhere. */
void check_signals();

/* The first failure of a process writes the flight recorder, if TORCH_FR_DUMP_TEMP_FILE asks for it. No lock may be held. */
void dump_on_failure();

/* Where in Python an operation was issued. Capturing is references to code objects and positions in them, which weft/_stack.py
 * makes names and lines of when somebody asks. */
class Stack
{
public:
    /* NULL in a thread of C++ alone, as autograd's. */
    static std::shared_ptr<Stack> capture();
    Stack() = default;
    Stack(const Stack &) = delete;
    Stack &operator=(const Stack &) = delete;
    ~Stack();
    /* With the interpreter's lock: a new list of (code, position), innermost first. */
    _object *frames() const;
    /* "file.py:12 in step", without the frames of torch; "" if unknown. */
    static std::string describe(const std::shared_ptr<Stack> &stack);

private:
    static constexpr size_t kFrames = 24;

    c10::SmallVector<std::pair<PyCodeObject *, int>, kFrames> frames_;
};

using StackPtr = std::shared_ptr<Stack>;

/* The generator that runs in the calling frame: torch's coalescing manager, whose with-block may be left by an exception without
 * a word to the backend. */
class Block
{
public:
    /* NULL: it is no generator, or nobody could tell. When it has been left without its end, torch forgets the group's operations
     * as well (weft/_coalescing.py). */
    static std::shared_ptr<Block> here(const std::string &group);
    explicit Block(_object *reference) : reference_(reference) {}
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    ~Block();
    /* Its generator has ended, which it does not before the batch's end. */
    bool left() const;

private:
    _object *reference_;
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
