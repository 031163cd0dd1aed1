#include "tests/bench/limits/step.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "kernels/step_state.h"

namespace lockstep::bench {

using kernels::KernelIo;
using kernels::TensorDesc;

double shortest(const std::function<void()>& run, double budget_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto until = Clock::now() + std::chrono::duration<double>(budget_seconds);
  double best = 1e9;
  for (int runs = 0; runs < 3 || Clock::now() < until; ++runs) {
    const auto start = Clock::now();
    run();
    best = std::min(best, seconds(Clock::now() - start));
  }
  return best;
}

Tensor* Step::tensor(const Shape& shape, DType dtype) {
  tensors_.push_back(std::make_unique<Tensor>(Tensor{TensorDesc{dtype, shape, {}}, nullptr}));
  return tensors_.back().get();
}

Tensor* Step::plain(const Shape& shape, DType dtype) {
  Tensor* made = tensor(shape, dtype);
  made->desc.layout = kernels::Layout::row_major(shape);
  return made;
}

Tensor* Step::like(Tensor* other) {
  Tensor* made = tensor(other->desc.shape, other->desc.dtype);
  made->desc.layout = other->desc.layout_or_row_major();
  return made;
}

KernelIo Step::describe(const std::vector<Tensor*>& in, const std::vector<Tensor*>& out) {
  KernelIo io;
  for (const Tensor* tensor : in) io.inputs.push_back(tensor->desc);
  for (const Tensor* tensor : out) io.outputs.push_back(tensor->desc);
  return io;
}

/// Kernels without a choice of their own (losses, optimizers) take what is there, else plain.
void Step::follow(KernelIo& io) {
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc.layout = desc.layout_or_row_major();
  }
}

void Step::settle(const KernelIo& io, const std::vector<Tensor*>& in, const std::vector<Tensor*>& out,
                  const std::string& name) {
  const auto take = [&](Tensor* tensor, const TensorDesc& chosen) {
    if (tensor->desc.layout && tensor->desc.layout != chosen.layout) {
      throw std::logic_error(name + " wants " + chosen.layout->str() + ", not " + tensor->desc.layout->str());
    }
    tensor->desc.layout = chosen.layout;
  };
  for (std::size_t i = 0; i < in.size(); ++i) take(in[i], io.inputs[i]);
  for (std::size_t i = 0; i < out.size(); ++i) take(out[i], io.outputs[i]);
}

void Step::append(const std::string& name, kernels::KernelPtr kernel, std::vector<Tensor*> in,
                  std::vector<Tensor*> out, double flop) {
  in.insert(in.end(), out.begin(), out.end());
  entries_.push_back({name, std::move(kernel), std::move(in), flop, nullptr});
}

void Step::bind() {
  std::size_t workspace = 0;
  for (const Entry& entry : entries_) workspace = std::max(workspace, entry.kernel->workspace_bytes());
  workspace_ = device_.allocate(workspace);
  for (Entry& entry : entries_) {
    std::vector<void*> addresses;
    for (Tensor* tensor : entry.tensors) {
      if (!tensor->memory) tensor->memory = device_.allocate(tensor->desc.bytes());
      addresses.push_back(tensor->memory->data());
    }
    entry.bound = entry.kernel->bind(addresses, workspace_->data());
  }
}

std::vector<Step::Row> Step::measure() {
  bind();
  std::vector<Row> rows;
  for (const Entry& entry : entries_) {
    const double seconds = shortest([&] { entry.bound->launch(*stream_); }, 0.1);
    rows.push_back({entry.name, seconds * 1e3, entry.flop / seconds / 1e9});
  }
  double flop = 0;
  for (const Entry& entry : entries_) flop += entry.flop;
  const auto whole = [&] {
    for (const Entry& entry : entries_) entry.bound->launch(*stream_);
  };
  const double seconds = shortest(whole, 2);
  rows.push_back({"whole step", seconds * 1e3, flop / seconds / 1e9});
  return rows;
}

}  // namespace lockstep::bench
