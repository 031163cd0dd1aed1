#pragma once

#include <functional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/dispatch.h"
#include "tests/support/catch.h"

namespace lockstep::kernels::test {

/// A tensor in row-major double precision: what references compute with.
struct Values {
  Shape shape;
  std::vector<double> data;
};

/// Multiples of 1/64 in [-1, 1), the same for the same seed: exact in f32.
Values random_values(const Shape& shape, unsigned seed);

enum class Layouts { row_major, chosen, row_major_inputs };

/// Of the whole test, made once.
kernels::Device& device();

/// Whether that is a GPU and NVIDIA's libraries compute, which the simulator has not.
bool is_real_gpu();

/// Elements enough for two threads of the CPU, or for a few blocks of a GPU (the simulator and a sanitizer
/// take half a microsecond for each), and a tail.
std::int64_t many_elements();

std::unique_ptr<Memory> upload(std::span<const std::byte> bytes);
void download(const Memory& memory, std::span<std::byte> bytes);
template <class T>
std::unique_ptr<Memory> upload(const std::vector<T>& values) {
  return upload(std::as_bytes(std::span(values)));
}
template <class T>
std::vector<T> download(const Memory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  download(memory, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Elements of `values` in `layout`, padding zero, and back. `unpack` also requires the padding to be zero,
/// but of bytes, which are indices.
std::unique_ptr<Memory> pack(const Values& values, const Layout& layout, DType dtype = DType::f32);
Values unpack(const Memory& memory, const Shape& shape, const Layout& layout, DType dtype = DType::f32);

/// Packs, prepares, binds, launches twice (the second must not depend on the first) and unpacks.
std::vector<Values> run_prepared(const KernelPtr& kernel, const KernelIo& io,
                                 const std::vector<Values>& inputs);

/// f32 tensors, their layouts open for the kernel or not.
KernelIo make_io(const std::vector<Values>& inputs, const std::vector<Shape>& outputs, Layouts layouts);

template <class Spec>
std::vector<Values> run(const Spec& spec, const std::vector<Values>& inputs,
                        const std::vector<Shape>& outputs, Layouts layouts) {
  KernelIo io = make_io(inputs, outputs, layouts);
  if (layouts != Layouts::row_major) choose_layouts(device(), spec, io);
  return run_prepared(kernel_for(device(), spec, io), io, inputs);
}

using Function = std::function<Values(const std::vector<Values>&)>;

/// `got` is the gradient of <f(inputs), dy> with respect to inputs[which]: central differences in double, at
/// up to 48 elements spread over the tensor.
void require_gradient(const Values& got, const Function& f, std::vector<Values> inputs, std::size_t which,
                      const Values& dy, double tolerance);

/// Every element within `tolerance`.
void require_close(const Values& got, const Values& wanted, double tolerance);

}  // namespace lockstep::kernels::test
