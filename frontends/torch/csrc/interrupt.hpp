/* SPDX-License-Identifier: BSD-3-Clause */
/* Ctrl-C while the main thread is inside a blocking call of the library. */
#pragma once

#include "work.hpp"

namespace weft_torch
{

/* As long as it exists the calling thread is inside a call that SIGINT may have to end. */
class BlockingCall
{
public:
    explicit BlockingCall(Engine *engine);
    ~BlockingCall();
    BlockingCall(const BlockingCall &) = delete;
    BlockingCall &operator=(const BlockingCall &) = delete;

private:
    const bool counted_;
};

/* From another thread, without the interpreter's lock: end the main thread's call, unless it soon ends by itself. */
void interrupt();

} // namespace weft_torch
