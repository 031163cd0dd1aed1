#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/support/device_under_test.h"

namespace lockstep::parity {

/// A tensor on the host, row-major.
struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  static HostTensor zeros(DType dtype, Shape shape);

  template <class T>
  static HostTensor of(DType dtype, Shape shape, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
  }

  /// A structure that kernels read or write, such as StepState.
  template <class T>
  static HostTensor of_struct(const T& value) {
    return of(DType::u8, {sizeof(T)}, std::span<const std::byte>(std::as_bytes(std::span(&value, 1))));
  }

  std::span<const float> floats() const {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
};

enum class LayoutChoice {
  plain,   ///< PyTorch's layout for every tensor
  chosen,  ///< what the kernel's choose_layouts says, reordered on the way in and out
};

/// Runs one kernel on host tensors: prepare, bind, launch.
class KernelMachine {
 public:
  explicit KernelMachine(LayoutChoice choice)
      : choice_(choice), device_(tests::make_device_under_test(1)), stream_(device_->make_stream()) {}

  /// `outputs` come with their first values, and go back as the kernel left them.
  template <class Spec>
  void run(const Spec& spec, std::span<const HostTensor> inputs, std::span<HostTensor> outputs) {
    kernels::KernelIo io = describe(inputs, outputs);
    if (choice_ == LayoutChoice::chosen) choose_layouts(*device_, spec, io);
    settle(io);
    launch(*kernel_for(*device_, spec, io), io, inputs, outputs);
  }

 private:
  using MemoryPtr = std::unique_ptr<kernels::Memory>;

  static kernels::KernelIo describe(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  /// What has no layout yet gets PyTorch's.
  static void settle(kernels::KernelIo& io);
  void launch(const kernels::Kernel& kernel, const kernels::KernelIo& io, std::span<const HostTensor> inputs,
              std::span<HostTensor> outputs);
  void launch(const kernels::Kernel& kernel, std::span<void* const> addresses);
  MemoryPtr upload(const HostTensor& tensor, const kernels::TensorDesc& wanted);
  void download(HostTensor& tensor, const kernels::Memory& memory, const kernels::TensorDesc& desc);
  MemoryPtr reorder(const kernels::Memory& from, const kernels::TensorDesc& have,
                    const kernels::TensorDesc& wanted);

  LayoutChoice choice_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Stream> stream_;
};

}  // namespace lockstep::parity
