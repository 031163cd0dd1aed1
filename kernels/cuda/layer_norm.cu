#include "kernels/layer_norm.h"

#include "kernels/cuda/portability.h"

#include <type_traits>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/layer_norm_rows.h"
#include "kernels/rms_norm.h"

namespace lockstep::kernels {
namespace {

/// `bias` may be null, and so may `residual` and `state`: nothing is dropped.
template <class Residual>
struct Inputs {
  const float *x, *weight, *bias;
  const Residual* residual;
  const StepState* state;
};

/// `mean` is null in RMS norm, `total` without a residual.
template <class Y>
struct Outputs {
  Y* y;
  float *mean, *rstd, *total;
};

template <int threads, int lanes, class Y, class Residual>
__global__ void normalise(Rows rows, float eps, Dropout dropout, std::int64_t in_sample,
                          Inputs<Residual> from, Outputs<Y> to) {
  const std::int64_t row = row_of_thread<threads>();
  if (row >= rows.count) return;
  const auto count = static_cast<float>(rows.columns);
  const std::int64_t first = row * rows.columns;
  float center = 0;
  if (to.mean != nullptr) {
    for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
      auto in = load<lanes>(from.x + first + k);
      if (from.residual != nullptr) {
        auto branch = load<lanes>(from.residual + first + k);
        if constexpr (lanes == 4 && !std::is_same_v<Residual, float>) {
          if (from.state != nullptr)
            branch = DroppedRow(dropout, *from.state, first, in_sample).template of<Residual>(k, branch);
        }
        for (int lane = 0; lane < lanes; ++lane) in.at[lane] += branch.at[lane];
        store(to.total + first + k, in);
      }
      for (int lane = 0; lane < lanes; ++lane) center += in.at[lane];
    });
    center = sum<threads>(center) / count;
  }
  const float* const x = (from.residual == nullptr ? from.x : to.total) + first;
  float distances = 0;
  float squares = 0;
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    const auto in = load<lanes>(x + k);
    for (int lane = 0; lane < lanes; ++lane) {
      const float distance = in.at[lane] - center;
      distances += distance;
      squares += distance * distance;
    }
  });
  float variance = sum<threads>(squares) / count;
  if (to.mean != nullptr) {
    // What rounding took from the mean, much in rows far from zero, the distances from it give back.
    const float shift = sum<threads>(distances) / count;
    center += shift;
    variance -= shift * shift;
  }
  const float scale = CudaMath::rsqrt((variance < 0 ? 0 : variance) + eps);
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    auto out = load<lanes>(x + k);
    const auto w = load<lanes>(from.weight + k);
    const auto b = from.bias == nullptr ? Floats<lanes>::all(0) : load<lanes>(from.bias + k);
    for (int lane = 0; lane < lanes; ++lane)
      out.at[lane] = (out.at[lane] - center) * scale * w.at[lane] + b.at[lane];
    store(to.y + first + k, out);
  });
  if (threadIdx.x % threads != 0) return;
  if (to.mean != nullptr) to.mean[row] = center;
  to.rstd[row] = scale;
}

/// Operands that RMS norm, which is the same around 0, does not have.
struct Further {
  const float* bias = nullptr;
  Dropout dropout;
  const void* residual = nullptr;
  const StepState* state = nullptr;
  float* mean = nullptr;
  float* total = nullptr;

  Further(const LayerNorm& op, const Addresses& a)
      : bias(a.in(LayerNorm::bias)),
        dropout(op.dropout),
        residual(a.in<void>(LayerNorm::residual)),
        state(a.in<StepState>(LayerNorm::state)),
        mean(a.out(LayerNorm::mean)),
        total(a.out(LayerNorm::total)) {}
  Further(const RmsNorm&, const Addresses&) {}
};

template <class Op>
KernelPtr forward_kernel(const Op& op, const KernelIo& io, DType residual = DType::f32) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  const std::int64_t in_sample = io.inputs[Op::x].shape.elements(1);
  return for_rows(
      rows, io.outputs[Op::y].dtype, residual, [&]<int threads, int lanes, class Y, class Residual>() {
        return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
          if (rows.count == 0) return;
          const Further further(op, a);
          const Inputs<Residual> from{.x = a.in(Op::x),
                                      .weight = a.in(Op::weight),
                                      .bias = further.bias,
                                      .residual = static_cast<const Residual*>(further.residual),
                                      .state = further.state};
          const Outputs<Y> to{.y = a.template out<Y>(Op::y),
                              .mean = further.mean,
                              .rstd = a.out(Op::rstd),
                              .total = further.total};
          launch(normalise<threads, lanes, Y, Residual>, blocks_for(rows.count * threads, block), block, 0,
                 stream, rows, static_cast<float>(op.eps), further.dropout, in_sample, from, to);
        });
      });
}

}  // namespace

KernelPtr prepare(Cuda, const LayerNorm& op, const KernelIo& io) {
  return forward_kernel(op, io, dtype_of(io.inputs, LayerNorm::residual));
}

KernelPtr prepare(Cuda, const RmsNorm& op, const KernelIo& io) {
  return forward_kernel(op, io);
}

}  // namespace lockstep::kernels
