#include "tests/gpu/shares/peaks.h"

#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "runtime/plan/launches.h"
#include "tests/gpu/shares/timing.h"
#include "tests/support/device_under_test.h"

namespace lockstep::shares {
namespace {

using namespace kernels;

struct Sizes {
  std::int64_t matrix;  ///< rows and columns
  std::int64_t copied;  ///< elements
};

/// Large enough that nothing of it stays in a cache, and that a GPU's multiprocessors are all at work.
Sizes sizes_for(const Device& device) {
  if (tests::is_simulated(device)) return {64, 1 << 16};
  if (device.is_cpu()) return {1024, 1 << 24};
  return {8192, 1 << 28};
}

template <class Spec>
double seconds_of_spec(Device& device, const Spec& spec, KernelIo io) {
  choose_layouts(device, spec, io);
  return seconds_of_launch(device, *kernel_for(device, spec, io), io, {});
}

}  // namespace

Peaks measure_peaks(Device& device, DType dtype, MatmulPrecision precision) {
  const auto [n, copied] = sizes_for(device);
  const TensorDesc matrix{dtype, {n, n}, {}};
  const double product =
      seconds_of_spec(device, Linear{.precision = precision}, {{matrix, matrix}, {matrix}});
  const TensorDesc vector{DType::f32, {copied}, {}};
  const KernelIo copy{{vector}, {vector}};
  const double extent = static_cast<double>(n);
  return {.flops = 2 * extent * extent * extent / product,
          .bytes = runtime::bytes_of(copy) /
                   seconds_of_spec(device, Pointwise::single(PointwiseFunction::relu), copy)};
}

}  // namespace lockstep::shares
