#include "tests/parity/kernel_machine.h"

#include "kernels/reorder.h"

namespace lockstep::parity {

using kernels::KernelIo;
using kernels::Layout;
using kernels::Memory;
using kernels::TensorDesc;

namespace {

TensorDesc plain(const HostTensor& tensor) {
  return {tensor.dtype, tensor.shape, Layout::row_major(tensor.shape)};
}

}  // namespace

HostTensor HostTensor::zeros(DType dtype, Shape shape) {
  const auto count = static_cast<std::size_t>(shape.elements());
  return {dtype, std::move(shape), std::vector<std::byte>(count * size_of(dtype))};
}

KernelIo KernelMachine::describe(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  KernelIo io;
  for (const HostTensor& tensor : inputs) io.inputs.push_back({tensor.dtype, tensor.shape, {}});
  for (const HostTensor& tensor : outputs) io.outputs.push_back({tensor.dtype, tensor.shape, {}});
  return io;
}

void KernelMachine::settle(KernelIo& io) {
  for (TensorDesc& desc : io.inputs) desc.layout = desc.layout_or_row_major();
  for (TensorDesc& desc : io.outputs) desc.layout = desc.layout_or_row_major();
}

void KernelMachine::launch(const kernels::Kernel& kernel, const KernelIo& io,
                           std::span<const HostTensor> inputs, std::span<HostTensor> outputs) {
  std::vector<MemoryPtr> memory;
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.push_back(upload(inputs[i], io.inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) memory.push_back(upload(outputs[i], io.outputs[i]));
  std::vector<void*> addresses;
  for (const MemoryPtr& block : memory) addresses.push_back(block->data());
  launch(kernel, addresses);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    download(outputs[i], *memory[inputs.size() + i], io.outputs[i]);
  }
}

void KernelMachine::launch(const kernels::Kernel& kernel, std::span<void* const> addresses) {
  const auto workspace = device_->allocate(kernel.workspace_bytes());
  kernel.bind(addresses, workspace->data())->launch(*stream_);
  stream_->synchronize();
}

KernelMachine::MemoryPtr KernelMachine::upload(const HostTensor& tensor, const TensorDesc& wanted) {
  auto memory = device_->allocate(tensor.bytes.size());
  device_->copy_to_device(memory->data(), tensor.bytes.data(), tensor.bytes.size(), *stream_);
  stream_->synchronize();
  return *wanted.layout == Layout::row_major(tensor.shape) ? std::move(memory)
                                                           : reorder(*memory, plain(tensor), wanted);
}

void KernelMachine::download(HostTensor& tensor, const Memory& memory, const TensorDesc& desc) {
  if (*desc.layout != Layout::row_major(tensor.shape)) {
    download(tensor, *reorder(memory, desc, plain(tensor)), plain(tensor));
    return;
  }
  device_->copy_to_host(tensor.bytes.data(), memory.data(), tensor.bytes.size(), *stream_);
  stream_->synchronize();
}

KernelMachine::MemoryPtr KernelMachine::reorder(const Memory& from, const TensorDesc& have,
                                                const TensorDesc& wanted) {
  auto to = device_->allocate(wanted.bytes());
  const auto kernel =
      kernel_for(*device_, kernels::Reorder{}, KernelIo{.inputs = {have}, .outputs = {wanted}});
  const std::vector<void*> addresses{from.data(), to->data()};
  launch(*kernel, addresses);
  return to;
}

}  // namespace lockstep::parity
