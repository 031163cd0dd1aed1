#pragma once

#include "kernels/cuda/portability.h"

#include <type_traits>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/layer_norm_rows.h"

/// Backward of layer norm and RMS norm: what one row gives.
namespace lockstep::kernels {

/// `mean` is null in RMS norm; `dtotal` may be null, and so may `state`: nothing is dropped.
template <class Y>
struct LayerNormGradientInputs {
  const Y* dy;
  const float *x, *weight, *mean, *rstd, *dtotal;
  const StepState* state;
};

template <class Residual>
struct LayerNormGradients {
  float* dx;
  Residual* dresidual;  ///< or null
};

/// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean of g - n * mean of (g * n)).
template <class Y, class Residual>
struct RowGradient {
  Rows rows;
  Dropout dropout;
  std::int64_t in_sample;
  LayerNormGradientInputs<Y> from;
  LayerNormGradients<Residual> to;

  /// Of a row, by `threads` threads. Each adds what its columns give dweight to `sums`, and behind that row
  /// of sums what they give dbias; `sums` may be null. What is read a second time lies in a cache.
  template <int threads, int lanes>
  __device__ void run(std::int64_t row, float* sums) const {
    const std::int64_t first = row * rows.columns;
    const auto count = static_cast<float>(rows.columns);
    const float center = from.mean == nullptr ? 0 : from.mean[row];
    const float scale = from.rstd[row];
    const auto visit_terms = [&](auto visit) {
      for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
        const auto gradient = load<lanes>(from.dy + first + k);
        const auto w = load<lanes>(from.weight + k);
        auto n = load<lanes>(from.x + first + k);
        Floats<lanes> g;
        for (int lane = 0; lane < lanes; ++lane) {
          g.at[lane] = gradient.at[lane] * w.at[lane];
          n.at[lane] = (n.at[lane] - center) * scale;
        }
        visit(k, gradient, g, n);
      });
    };
    float total = 0;
    float along = 0;
    visit_terms([&](std::int64_t k, const auto& gradient, const auto& g, const auto& n) {
      for (int lane = 0; lane < lanes; ++lane) {
        total += g.at[lane];
        along += g.at[lane] * n.at[lane];
      }
      if (sums != nullptr) add<lanes>(sums + k, gradient, n);
    });
    const float shift = from.mean == nullptr ? 0 : sum<threads>(total) / count;
    const float slope = sum<threads>(along) / count;
    visit_terms([&](std::int64_t k, const auto&, const auto& g, const auto& n) {
      Floats<lanes> out;
      for (int lane = 0; lane < lanes; ++lane)
        out.at[lane] = scale * (g.at[lane] - shift - n.at[lane] * slope);
      if (from.dtotal != nullptr) {
        const auto more = load<lanes>(from.dtotal + first + k);
        // Rounded as by an add of its own: nvcc would make it part of the product before it.
        for (int lane = 0; lane < lanes; ++lane) out.at[lane] = __fadd_rn(out.at[lane], more.at[lane]);
      }
      store(to.dx + first + k, out);
      if (to.dresidual == nullptr) return;
      if constexpr (lanes == 4 && !std::is_same_v<Residual, float>) {
        if (from.state != nullptr)
          out = DroppedRow(dropout, *from.state, first, in_sample).template of<Residual>(k, out);
      }
      store(to.dresidual + first + k, out);
    });
  }

 private:
  template <int lanes>
  __device__ void add(float* sums, const Floats<lanes>& gradient, const Floats<lanes>& n) const {
    auto of_weight = load<lanes>(static_cast<const float*>(sums));
    auto of_bias = load<lanes>(static_cast<const float*>(sums + rows.columns));
    for (int lane = 0; lane < lanes; ++lane) {
      of_weight.at[lane] += gradient.at[lane] * n.at[lane];
      of_bias.at[lane] += gradient.at[lane];
    }
    store(sums, of_weight);
    store(sums + rows.columns, of_bias);
  }
};

}  // namespace lockstep::kernels
