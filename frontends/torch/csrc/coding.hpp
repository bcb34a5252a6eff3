/* SPDX-License-Identifier: BSD-3-Clause */
/* Which codec the calls of an operation take, and whose residuals: named by the user for the calls of a thread, or by a hook. */
#pragma once

#include "runtime.hpp"
#include "scope.hpp"

namespace weft_torch
{

class Coding
{
public:
    /* The text is checked. NULL: what the communicator does (WEFT_COMPRESS). The i-th call has the residual of tensors[i]; calls
     * beyond the first `coded` ones send plain data. */
    Coding(const char *codec, std::vector<uint64_t> tensors, size_t coded = SIZE_MAX)
        : named_(codec), codec_(codec ? codec : ""), coded_(coded), tensors_(std::move(tensors))
    {
        if (codec)
            check(codec);
    }
    static void check(const char *codec);
    /* Neither codec nor tensor: what calls of a batch have that were made outside of `with weft.codec(...)`. */
    static const std::shared_ptr<const Coding> &nothing();

    void set(weft_call_options &options, size_t call) const
    {
        options.codec = call >= coded_ ? "none" : named_ ? codec_.c_str() : nullptr;
        options.tensor = call < tensors_.size() ? tensors_[call] : 0;
    }

    /* NULL: what the communicator does. */
    const char *codec() const { return named_ ? codec_.c_str() : nullptr; }
    const std::vector<uint64_t> &tensors() const { return tensors_; }

private:
    const bool named_;
    const std::string codec_;
    const size_t coded_;
    const std::vector<uint64_t> tensors_;
};

using CodingPtr = std::shared_ptr<const Coding>;
using CodingScope = Scope<Coding>; /* with weft.codec(...) */

/* Ids of tensors from here on are the hooks'; those below are the user's. Each hook's state has so many of its own. */
inline constexpr uint64_t kTensorsOfState = 1ull << 32;

} // namespace weft_torch
