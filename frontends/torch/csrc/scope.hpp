/* SPDX-License-Identifier: BSD-3-Clause */
/* What `with` blocks of a thread name for the calls inside. */
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <c10/macros/Macros.h>

namespace weft_torch
{

/* One block. A generator may be suspended inside of it, and closed later, by another thread, when those that were entered after it
 * have been left or have not: each block takes away what itself has named, and nothing else. */
template <class T> class Scope
{
public:
    using Named = std::shared_ptr<const T>;

    explicit Scope(Named named) : named_(std::move(named)) {}
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

    /* The calling thread's innermost block from now on. */
    static std::shared_ptr<Scope> enter(Named named)
    {
        auto scope = std::make_shared<Scope>(std::move(named));
        mine().scopes.push_back(scope);
        newest_ = scope.get();
        return scope;
    }
    /* By any thread. The one that entered it takes it away, when it looks next. */
    void leave()
    {
        left_.store(true, std::memory_order_relaxed);
        if (newest_)
            forget_left();
    }
    /* By the innermost block of the calling thread that was not left; NULL: there is none. */
    static Named of_thread()
    {
        if (C10_LIKELY(!newest_))
            return nullptr;
        if (newest_->left_.load(std::memory_order_relaxed))
            forget_left();
        return newest_ ? newest_->named_ : nullptr;
    }
    static bool any() { return newest_ != nullptr; }

private:
    /* After its end a thread has none: newest_, which has no destructor, may still be looked at. */
    struct Thread {
        std::vector<std::shared_ptr<Scope>> scopes; /* the innermost is the last */
        ~Thread() { newest_ = nullptr; }
    };
    static Thread &mine()
    {
        static thread_local Thread thread;
        return thread;
    }
    static void forget_left()
    {
        auto &scopes = mine().scopes;
        std::erase_if(scopes, [](const auto &scope) { return scope->left_.load(std::memory_order_relaxed); });
        newest_ = scopes.empty() ? nullptr : scopes.back().get();
    }

    static inline constinit thread_local Scope *newest_ = nullptr;
    const Named named_;
    std::atomic<bool> left_{false};
};

} // namespace weft_torch
