/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the adapter without an interpreter: what it asks of Python, answered as where Python does not run. */
#include "frontends/torch/csrc/python.hpp"

namespace weft_torch
{

bool python_runs()
{
    return false;
}

void check_signals()
{
}

void dump_on_failure()
{
}

std::shared_ptr<Stack> Stack::capture()
{
    return nullptr;
}

Stack::~Stack()
{
}

_object *Stack::frames() const
{
    return nullptr;
}

std::string Stack::describe(const std::shared_ptr<Stack> &)
{
    return "";
}

std::shared_ptr<Block> Block::here(const std::string &)
{
    return nullptr;
}

Block::~Block()
{
}

bool Block::left() const
{
    return true;
}

} // namespace weft_torch
