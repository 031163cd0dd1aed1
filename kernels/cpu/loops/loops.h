#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/optimizer.h"
#include "kernels/step_state.h"

/// Our own loops, compiled once per instruction set from the same sources. Each works on one thread on the
/// range that it is given; the kernels in kernels/cpu share the work out. Nothing here allocates.
namespace lockstep::kernels::loops {

/// One plane of lanes: `lanes` channels that lie side by side (16 in nChw16c, 1 in nchw, C in channels-last).
struct PoolPlane {
  std::int64_t height, width, out_height, out_width;
  std::int64_t x_row, y_row, pixel;  ///< elements from row to row of x and y, and from pixel to pixel
  std::int64_t lanes;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
};

/// What one row adds to the loss, before the loss scale.
struct RowLoss {
  float loss;
  float correct;
  float targets;
};

struct Rows {
  std::int64_t begin, end, columns;
  std::int64_t valid;  ///< rows from here on are padding
  float scale;         ///< of the gradient
};

/// y = x w^T + b with its gradients, for products too small for a library call. Plain layouts.
struct SmallLinear {
  std::int64_t rows, inputs, outputs;
};

struct Loops {
  std::string_view name;

  void (*relu)(const float* x, float* y, std::int64_t n);
  void (*relu_backward)(const float* y, const float* dy, float* dx, std::int64_t n);
  void (*add)(const float* a, const float* b, float* sum, std::int64_t n);

  void (*max_pool)(const PoolPlane& plane, const float* x, float* y);
  void (*max_pool_backward)(const PoolPlane& plane, bool relu_mask, const float* x, const float* dy,
                            float* dx);
  void (*avg_pool)(const PoolPlane& plane, const float* x, float* y);
  void (*avg_pool_backward)(const PoolPlane& plane, const float* dy, float* dx);

  /// `gradient` may be null. `losses` has one element per row, from row 0 on.
  void (*cross_entropy)(const Rows& rows, float smoothing, const float* logits, const std::int64_t* targets,
                        float* gradient, RowLoss* losses);
  void (*squared_error)(const Rows& rows, const float* y, const float* targets, float* gradient,
                        RowLoss* losses);

  double (*sum_of_squares)(const float* x, std::int64_t n);

  /// `buffer` is null without momentum.
  void (*sgd)(const SgdUpdate& spec, const StepState& state, const float* gradient, float* parameter,
              float* buffer, std::int64_t n);
  void (*adam)(const AdamUpdate& spec, const StepState& state, const float* gradient, float* parameter,
               float* exp_avg, float* exp_avg_sq, std::int64_t n);

  void (*linear)(const SmallLinear& size, bool relu, const float* x, const float* w, const float* b,
                 float* y);
  void (*linear_backward_data)(const SmallLinear& size, const float* dy, const float* w, float* dx);
  void (*linear_backward_weights)(const SmallLinear& size, const float* x, const float* dy, float* dw,
                                  float* db);
};

/// The widest that this processor has.
const Loops& best();
/// All that this processor has, narrowest first.
std::span<const Loops* const> available();

}  // namespace lockstep::kernels::loops
