/* SPDX-License-Identifier: BSD-3-Clause */
#include "coding.hpp"

#include <weft/weft_compress.h>

namespace weft_torch
{

void Coding::check(const char *codec)
{
    TORCH_CHECK_VALUE(weft_codec_check(codec) >= 0, "weft: ", weft_thread_error());
}

const CodingPtr &Coding::nothing()
{
    static const CodingPtr none = std::make_shared<Coding>(nullptr, std::vector<uint64_t>());
    return none;
}

} // namespace weft_torch
