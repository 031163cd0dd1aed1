#pragma once

#include <algorithm>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/portability.h"
#include "kernels/dropout.h"
#include "kernels/kernel.h"

/// What layer norm and RMS norm, which is the same around 0, share, forward and backward: rows, and the
/// kernel that fits them. `Y` is the type of y and its gradient, `Residual` that of the residual and its own.
namespace lockstep::kernels {

inline constexpr int block = 256;

struct Rows {
  std::int64_t count, columns;
};

/// The row of each `threads` neighbouring threads.
template <int threads>
__device__ std::int64_t row_of_thread() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / threads;
}

/// `visit(k)` for the thread's share of a row, `lanes` elements from column k on.
template <int threads, int lanes, class Visit>
__device__ void for_columns(std::int64_t columns, Visit visit) {
  for (std::int64_t k = threadIdx.x % threads * lanes; k < columns; k += threads * lanes) visit(k);
}

/// What a row of a half type keeps of itself, with the words of `Dropout` on the whole tensor.
class DroppedRow {
 public:
  __device__ DroppedRow(const Dropout& op, const StepState& state, std::int64_t first, std::int64_t in_sample)
      : random_(op.random(state)),
        threshold_(op.threshold()),
        scale_(op.scale()),
        sample_(state.first_sample + first / in_sample * state.sample_stride),
        first_(first % in_sample) {}

  /// Four numbers from column k on, as far as the type tells them apart before and after.
  template <class Half>
  __device__ Floats<4> of(std::int64_t k, Floats<4> values) const {
    const PhiloxCounter words = random_.block(dropout_block(sample_, (first_ + k) / 4));
    for (int lane = 0; lane < 4; ++lane) {
      const float kept = widen(narrow<Half>(widen(narrow<Half>(values.at[lane])) * scale_));
      values.at[lane] = words[static_cast<std::size_t>(lane)] < threshold_ ? 0.0F : kept;
    }
    return values;
  }

 private:
  Philox random_;
  std::uint32_t threshold_;
  float scale_;
  std::int64_t sample_, first_;
};

inline Rows rows_of(const TensorDesc& x) {
  const std::int64_t columns = x.shape[x.shape.rank() - 1];
  return {x.shape.elements() / columns, columns};
}

/// `make.operator()<threads of a row, lanes, Y, Residual>()`: what fits the rows.
template <class Y, class Residual, class Make>
KernelPtr for_rows(const Rows& rows, Make make) {
  const bool four = rows.columns % 4 == 0;
  if (rows.columns <= columns_of_a_warp) {
    return four ? make.template operator()<warp, 4, Y, Residual>()
                : make.template operator()<warp, 1, Y, Residual>();
  }
  return four ? make.template operator()<block, 4, Y, Residual>()
              : make.template operator()<block, 1, Y, Residual>();
}

/// The same for the types: two that are half types are the same one.
template <class Make>
KernelPtr for_rows(const Rows& rows, DType y, DType residual, Make make) {
  return with_element(is_half(y) ? y : residual, [&]<class Half>(Half*) {
    if (!is_half(residual)) return for_rows<Half, float>(rows, make);
    return is_half(y) ? for_rows<Half, Half>(rows, make) : for_rows<float, Half>(rows, make);
  });
}

}  // namespace lockstep::kernels
