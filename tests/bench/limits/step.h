#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/dispatch.h"
#include "kernels/op.h"

namespace lockstep::bench {

/// Shortest of many runs, in seconds: other processes only ever make a run longer.
double shortest(const std::function<void()>& run, double budget_seconds = 0.3);

/// A tensor in device memory; `layout` is open until the first kernel chooses it.
struct Tensor {
  kernels::TensorDesc desc;
  std::unique_ptr<kernels::Memory> memory;
};

/// One training step built straight from kernels, without graph or plan: what the plan can reach at best.
class Step {
 public:
  struct Row {
    std::string name;
    double milliseconds;
    double gflops;  ///< of arithmetic per second; 0 where it is not the point
  };

  explicit Step(kernels::Device& device) : device_(device), stream_(device.make_stream()) {}

  Tensor* tensor(const Shape& shape, DType dtype = DType::f32);
  /// Fixed from the start.
  Tensor* plain(const Shape& shape, DType dtype = DType::f32);
  /// A tensor that must lie as another does (a gradient, an optimizer's state).
  Tensor* like(Tensor* other);

  template <class Spec>
  void add(const std::string& name, const Spec& spec, std::vector<Tensor*> in, std::vector<Tensor*> out,
           double flop = 0) {
    kernels::KernelIo io = describe(in, out);
    if constexpr (Spec::layouts == kernels::LayoutRule::by_kernel) {
      choose_layouts(device_, spec, io);
    } else {
      follow(io);
    }
    settle(io, in, out, name);
    append(name, kernel_for(device_, spec, io), std::move(in), std::move(out), flop);
  }

  /// Times every kernel, then the whole step (the last row).
  std::vector<Row> measure();

 private:
  struct Entry {
    std::string name;
    kernels::KernelPtr kernel;
    std::vector<Tensor*> tensors;
    double flop;
    std::unique_ptr<kernels::BoundKernel> bound;
  };

  static kernels::KernelIo describe(const std::vector<Tensor*>& in, const std::vector<Tensor*>& out);
  static void follow(kernels::KernelIo& io);
  void settle(const kernels::KernelIo& io, const std::vector<Tensor*>& in, const std::vector<Tensor*>& out,
              const std::string& name);
  void append(const std::string& name, kernels::KernelPtr kernel, std::vector<Tensor*> in,
              std::vector<Tensor*> out, double flop);
  void bind();

  kernels::Device& device_;
  std::unique_ptr<kernels::Stream> stream_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::unique_ptr<kernels::Memory> workspace_;
  std::vector<Entry> entries_;
};

Step convnet(kernels::Device& device, std::int64_t batch);
Step mlp(kernels::Device& device, std::int64_t batch);
Step simplecnn(kernels::Device& device, std::int64_t batch);
Step linear(kernels::Device& device, std::int64_t batch);

/// The same chain of pointwise ops, over tensors far larger than the caches.
Step chain_apart(kernels::Device& device);
Step chain_joined(kernels::Device& device);
/// What it must read and write at least.
double chain_gigabytes();

}  // namespace lockstep::bench
