/* SPDX-License-Identifier: BSD-3-Clause */
#include "hooks.hpp"

namespace weft_torch
{

void BucketMemory::hold(size_t index, const at::Tensor &buffer)
{
    Held &held = held_[index];

    if (held.address == buffer.const_data_ptr() || buffer.nbytes() < kWorthIt)
        return;
    held.registration.reset();
    held.address = buffer.const_data_ptr();
    try {
        held.registration = std::make_unique<Registration>(buffer);
    } catch (const c10::Error &problem) {
        if (!warned_)
            TORCH_WARN("weft: buckets that cannot be registered are reduced where they are: ",
                       problem.what_without_backtrace());
        warned_ = true;
    }
}

c10::intrusive_ptr<Backend> weft_of(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    auto mine = c10::dynamic_intrusive_pointer_cast<Backend>(backend);

    TORCH_CHECK_VALUE(mine, "weft: the group's CPU backend is ", backend ? backend->getBackendName() : "none",
                      ", not weft");
    return mine;
}

HookState::HookState(c10::intrusive_ptr<c10d::Backend> group, std::optional<std::string> codec, Rules rules)
    : group_(weft_of(group)), codec_(std::move(codec)), rules_(rules),
      first_tensor_(++group_->engine()->states * kTensorsOfState)
{
    if (codec_)
        Coding::check(codec_->c_str());
}

uint64_t HookState::number(const at::Tensor &parameter)
{
    std::lock_guard<std::mutex> held(lock_);
    /* The reference keeps another tensor from having this one's address. */
    auto [at, is_new] =
        numbers_.try_emplace(parameter.unsafeGetTensorImpl(), TensorRef(parameter.getIntrusivePtr()), numbers_.size());

    if (is_new)
        elements_.push_back(parameter.numel());
    return at->second.second;
}

uint64_t HookState::parameters()
{
    std::lock_guard<std::mutex> held(lock_);
    return numbers_.size();
}

int64_t HookState::elements(uint64_t number)
{
    std::lock_guard<std::mutex> held(lock_);
    return number < elements_.size() ? elements_[number] : -1;
}

HookState::Layout HookState::cut(const Tensors &parameters)
{
    std::vector<uint64_t> tensors;
    Layout made;

    for (size_t i : c10::irange(parameters.size())) {
        uint64_t number = this->number(parameters[i]); /* of all of them, so that rules do not change the numbers */
        made.parameters.push_back(parameters[i].unsafeGetTensorImpl());
        if (is_coded(parameters[i])) {
            made.coded.push_back(i);
            tensors.push_back(tensor(number));
            continue;
        }
        made.plain_adjacent = made.plain_adjacent && (made.plain.empty() || made.plain.back() + 1 == i);
        made.plain.push_back(i);
    }
    made.coding = std::make_shared<Coding>(codec_ ? codec_->c_str() : nullptr, std::move(tensors), made.coded.size());
    return made;
}

const HookState::Layout &HookState::layout(size_t index, const Tensors &parameters)
{
    Layout &known = layouts_[index];
    bool same = known.parameters.size() == parameters.size();

    for (size_t i = 0; same && i < parameters.size(); i++)
        same = known.parameters[i] == parameters[i].unsafeGetTensorImpl();
    if (C10_UNLIKELY(!same))
        known = cut(parameters);
    return known;
}

/* Parts of a vector, one after the other in a vector of their own. */
static at::Tensor gathered(const Tensors &parts)
{
    int64_t elems = 0, at = 0;

    for (const at::Tensor &part : parts)
        elems += part.numel();
    at::Tensor all = at::empty({elems}, parts[0].options());
    for (const at::Tensor &part : parts) {
        all.narrow(0, at, part.numel()).copy_(part.view({-1}));
        at += part.numel();
    }
    return all;
}

static void scatter(const at::Tensor &all, const Tensors &parts)
{
    int64_t at = 0;

    for (const at::Tensor &part : parts) {
        part.view({-1}).copy_(all.narrow(0, at, part.numel()));
        at += part.numel();
    }
}

WorkBase HookState::average(c10d::GradBucket &bucket, bool bare)
{
    const at::Tensor &buffer = bucket.getBuffer();
    std::function<void()> unpack;
    Tensors parts, plain;

    if (buffer.layout() != at::kStrided)
        return average_whole(*group_, bucket, "none");
    if (rules_.transport_memory)
        memory_.hold(bucket.getIndex(), buffer);
    at::AutoDispatchBelowAutograd guard;
    const Layout &cut = layout(bucket.getIndex(), bucket.getParameters());
    Tensors gradients = bucket.getGradients();
    for (size_t i : cut.coded)
        parts.push_back(gradients[i]);
    for (size_t i : cut.plain)
        plain.push_back(gradients[i]);
    if (!plain.empty() && cut.plain_adjacent) {
        int64_t first = plain.front().storage_offset() - buffer.storage_offset();
        int64_t end = plain.back().storage_offset() - buffer.storage_offset() + plain.back().numel();
        parts.push_back(buffer.view({-1}).narrow(0, first, end - first));
    } else if (!plain.empty()) {
        parts.push_back(gathered(plain));
        unpack = [all = parts.back(), plain] { scatter(all, plain); };
    }
    return group_->average_parts(buffer, std::move(parts), cut.coding, std::move(unpack), bare);
}

WorkBase average_whole(Backend &group, c10d::GradBucket &bucket, const char *codec)
{
    const at::Tensor &buffer = bucket.getBuffer();
    c10d::AllreduceOptions options;
    Tensors one{buffer};

    options.reduceOp = c10d::ReduceOp::AVG;
    if (buffer.layout() != at::kStrided)
        return group.allreduce_sparse(one, options);
    return group.average_parts(buffer, {buffer}, std::make_shared<Coding>(codec, std::vector<uint64_t>()), nullptr,
                               false);
}

} // namespace weft_torch
