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

/* Begin to watch, once per process; only in the main thread. The interpreter's lock is held. */
void watch_signals();

} // namespace weft_torch
