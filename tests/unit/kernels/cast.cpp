#include "kernels/cast.h"

#include <cmath>
#include <limits>

#include "kernels/base/half.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Ties to both sides, what rounds to infinity, denormals of bf16 and f16 that f32 has as normal numbers.
const std::vector<float> telling{0.0F,      1.0F,     1.00390625F, 1.01171875F, -1.00390625F, 3.3895e38F,
                                 -infinity, 65519.0F, 65520.0F,    1e-7F,       -3.1e-5F,     0.1F,
                                 infinity,  2.0F / 3, -1e-30F,     123456.0F,   -0.0F};

template <class Half>
std::vector<float> rounded(const std::vector<float>& values) {
  std::vector<float> result;
  for (const float value : values) {
    Half half;
    narrow(value, half);
    result.push_back(widen(half));
  }
  return result;
}

std::vector<float> cast_there_and_back(const std::vector<float>& values, DType dtype) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const TensorDesc wide{DType::f32, shape, Layout::row_major(shape)};
  const TensorDesc narrow{dtype, shape, Layout::row_major(shape)};
  const auto from = upload(values);
  const auto between = device().allocate(narrow.bytes());
  const auto to = device().allocate(wide.bytes());
  const auto stream = device().make_stream();
  const auto launch = [&](DType target, const KernelIo& io, void* x, void* y) {
    void* const addresses[] = {x, y};
    kernel_for(device(), Cast{target}, io)->bind(addresses, nullptr)->launch(*stream);
    stream->synchronize();
  };
  launch(dtype, {{wide}, {narrow}}, from->data(), between->data());
  launch(DType::f32, {{narrow}, {wide}}, between->data(), to->data());
  return download<float>(*to);
}

}  // namespace

TEST_CASE("a cast rounds to the nearest, ties to even, and back it changes nothing") {
  CHECK(cast_there_and_back(telling, DType::bf16) == rounded<BFloat16>(telling));
  if (device().is_cpu()) return;  // f16 is a GPU's
  CHECK(cast_there_and_back(telling, DType::f16) == rounded<Float16>(telling));
}

TEST_CASE("a NaN stays one") {
  CHECK(std::isnan(cast_there_and_back({std::numeric_limits<float>::quiet_NaN()}, DType::bf16)[0]));
}

TEST_CASE("a cast keeps a blocked layout, or changes it on its way, and writes zero padding") {
  if (!device().is_cpu()) return;  // a GPU's layouts have no blocks
  const Shape shape{2, 17, 3, 5};
  const Values x = random_values(shape, 3);  // exact in bf16
  const Layout blocked{{2, 32, 3, 5}, {480, 240, 80, 16}, {{1, 16}}};
  KernelIo there = make_io({x}, {shape}, Layouts::row_major);
  there.outputs[0] = {DType::bf16, shape, blocked};
  const auto packed = pack(x, Layout::row_major(shape));
  const auto halves = device().allocate(there.outputs[0].bytes());
  const auto stream = device().make_stream();
  void* const addresses[] = {packed->data(), halves->data()};
  kernel_for(device(), Cast{DType::bf16}, there)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  require_close(unpack(*halves, shape, blocked, DType::bf16), x, 0);
}
