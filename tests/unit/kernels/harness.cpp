#include "tests/unit/kernels/harness.h"

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/base/half.h"
#include "tests/support/device_under_test.h"

namespace lockstep::kernels::test {
namespace {

/// Calls `visit(index, position in row-major order)` for each element.
template <class Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  Shape index(std::vector<std::int64_t>(shape.rank(), 0));
  const std::int64_t count = shape.elements();
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    visit(index, static_cast<std::size_t>(n));
  }
}

template <class Half>
std::vector<Half> narrowed(const std::vector<float>& data) {
  std::vector<Half> halves(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) narrow(data[i], halves[i]);
  return halves;
}

template <class Half>
std::vector<float> widened(const Memory& memory) {
  std::vector<float> data;
  for (const Half half : download<Half>(memory)) data.push_back(widen(half));
  return data;
}

std::vector<float> counts(const Memory& memory) {
  const auto bytes = download<std::uint8_t>(memory);
  return {bytes.begin(), bytes.end()};
}

double inner_product(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

/// NaN in every floating-point type: what memory of an arena may hold before a kernel writes it.
std::unique_ptr<Memory> allocate_not_a_number(std::size_t bytes) {
  return upload(std::vector<std::byte>(bytes, std::byte{0xff}));
}

}  // namespace

Values random_values(const Shape& shape, unsigned seed) {
  std::mt19937 generator(seed);
  Values values{shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
  for (double& value : values.data) value = static_cast<double>(generator() % 128) / 64.0 - 1.0;
  return values;
}

Device& device() {
  static const std::unique_ptr<Device> under_test = tests::make_device_under_test(2);
  return *under_test;
}

bool is_real_gpu() {
  return !device().is_cpu() && !tests::is_simulated(device());
}

std::int64_t many_elements() {
  return device().is_cpu() ? 70003 : 5003;
}

std::unique_ptr<Memory> upload(std::span<const std::byte> bytes) {
  auto memory = device().allocate(bytes.size());
  const auto stream = device().make_stream();
  device().copy_to_device(memory->data(), bytes.data(), bytes.size(), *stream);
  stream->synchronize();
  return memory;
}

void download(const Memory& memory, std::span<std::byte> bytes) {
  const auto stream = device().make_stream();
  device().copy_to_host(bytes.data(), memory.data(), bytes.size(), *stream);
  stream->synchronize();
}

std::unique_ptr<Memory> pack(const Values& values, const Layout& layout, DType dtype) {
  std::vector<float> data(static_cast<std::size_t>(layout.span()));
  for_each_index(values.shape, [&](const Shape& index, std::size_t n) {
    data[static_cast<std::size_t>(layout.offset(index))] = static_cast<float>(values.data[n]);
  });
  if (dtype == DType::bf16) return upload(narrowed<BFloat16>(data));
  if (dtype == DType::f16) return upload(narrowed<Float16>(data));
  if (dtype == DType::u8) return upload(std::vector<std::uint8_t>(data.begin(), data.end()));
  return upload(data);
}

Values unpack(const Memory& memory, const Shape& shape, const Layout& layout, DType dtype) {
  const std::vector<float> data = dtype == DType::bf16  ? widened<BFloat16>(memory)
                                  : dtype == DType::f16 ? widened<Float16>(memory)
                                  : dtype == DType::u8  ? counts(memory)
                                                        : download<float>(memory);
  Values values{shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
  std::vector<bool> used(static_cast<std::size_t>(layout.span()), false);
  for_each_index(shape, [&](const Shape& index, std::size_t n) {
    const auto at = static_cast<std::size_t>(layout.offset(index));
    values.data[n] = static_cast<double>(data[at]);
    used[at] = true;
  });
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i] && data[i] != 0 && dtype != DType::u8)
      FAIL("padding of " << shape.str() << " in " << layout.str() << " is not zero");
  }
  return values;
}

KernelIo make_io(const std::vector<Values>& inputs, const std::vector<Shape>& outputs, Layouts layouts) {
  KernelIo io;
  for (const Values& input : inputs) io.inputs.push_back({DType::f32, input.shape, {}});
  for (const Shape& output : outputs) io.outputs.push_back({DType::f32, output, {}});
  if (layouts == Layouts::row_major) all_row_major(io);
  if (layouts == Layouts::row_major_inputs) {
    for (TensorDesc& desc : io.inputs) desc.layout = Layout::row_major(desc.shape);
  }
  return io;
}

std::vector<Values> run_prepared(const KernelPtr& kernel, const KernelIo& io,
                                 const std::vector<Values>& inputs) {
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    memories.push_back(pack(inputs[i], io.inputs[i].layout_or_row_major(), io.inputs[i].dtype));
  }
  for (const TensorDesc& desc : io.outputs) memories.push_back(allocate_not_a_number(desc.bytes()));
  for (const auto& memory : memories) addresses.push_back(memory->data());
  const auto workspace = allocate_not_a_number(kernel->workspace_bytes());
  const auto bound = kernel->bind(addresses, workspace->data());
  const auto stream = device().make_stream();
  bound->launch(*stream);
  bound->launch(*stream);
  stream->synchronize();

  std::vector<Values> outputs;
  for (std::size_t i = 0; i < io.outputs.size(); ++i) {
    const TensorDesc& desc = io.outputs[i];
    outputs.push_back(
        unpack(*memories[inputs.size() + i], desc.shape, desc.layout_or_row_major(), desc.dtype));
  }
  return outputs;
}

void require_gradient(const Values& got, const Function& f, std::vector<Values> inputs, std::size_t which,
                      const Values& dy, double tolerance) {
  constexpr double step = 1.0 / 1024;  // below the 1/64 between our values: no maximum or sign changes sides
  REQUIRE(got.shape == inputs[which].shape);
  const std::size_t stride = got.data.size() / 48 + 1;
  for (std::size_t i = 0; i < got.data.size(); i += stride) {
    double& moved = inputs[which].data[i];
    const double at = moved;
    moved = at + step;
    const double above = inner_product(f(inputs), dy);
    moved = at - step;
    const double below = inner_product(f(inputs), dy);
    moved = at;
    const double wanted = (above - below) / (2 * step);
    INFO("element " << i << " of " << got.shape.str() << " is " << got.data[i] << ", must be " << wanted);
    REQUIRE(std::abs(got.data[i] - wanted) <= tolerance);
  }
}

void require_close(const Values& got, const Values& wanted, double tolerance) {
  REQUIRE(got.shape == wanted.shape);
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (std::abs(got.data[i] - wanted.data[i]) <= tolerance) continue;
    FAIL("element " << i << " of " << got.shape.str() << " is " << got.data[i] << ", must be "
                    << wanted.data[i]);
  }
}

}  // namespace lockstep::kernels::test
