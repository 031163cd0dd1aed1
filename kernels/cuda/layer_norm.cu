#include "kernels/layer_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/layer_norm_rows.h"
#include "kernels/rms_norm.h"

namespace lockstep::kernels {
namespace {

/// `residual` and `total` may be null.
template <int threads, int lanes, class Y, class Residual>
__global__ void normalise(Rows rows, float eps, const float* x, const float* weight, const float* bias,
                          const Residual* residual, Y* y, float* mean, float* rstd, float* total) {
  const std::int64_t row = row_of_thread<threads>();
  if (row >= rows.count) return;
  const auto count = static_cast<float>(rows.columns);
  const float* const from = x + row * rows.columns;
  const Residual* const other = residual == nullptr ? nullptr : residual + row * rows.columns;
  const auto values = [&](std::int64_t k) {
    auto in = load<lanes>(from + k);
    if (other == nullptr) return in;
    const auto more = load<lanes>(other + k);
    for (int lane = 0; lane < lanes; ++lane) in.at[lane] += more.at[lane];
    return in;
  };
  float center = 0;
  if (mean != nullptr) {
    for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
      const auto in = values(k);
      for (int lane = 0; lane < lanes; ++lane) center += in.at[lane];
    });
    center = sum<threads>(center) / count;
  }
  float squares = 0;
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    const auto in = values(k);
    for (int lane = 0; lane < lanes; ++lane) squares += (in.at[lane] - center) * (in.at[lane] - center);
  });
  const float scale = CudaMath::rsqrt(sum<threads>(squares) / count + eps);
  for_columns<threads, lanes>(rows.columns, [&](std::int64_t k) {
    auto out = values(k);
    if (total != nullptr) store(total + row * rows.columns + k, out);
    const auto w = load<lanes>(weight + k);
    const auto b = bias == nullptr ? Floats<lanes>::all(0) : load<lanes>(bias + k);
    for (int lane = 0; lane < lanes; ++lane)
      out.at[lane] = (out.at[lane] - center) * scale * w.at[lane] + b.at[lane];
    store(y + row * rows.columns + k, out);
  });
  if (threadIdx.x % threads != 0) return;
  if (mean != nullptr) mean[row] = center;
  rstd[row] = scale;
}

/// Operands that RMS norm, which is the same around 0, does not have.
struct Further {
  const float* bias = nullptr;
  const void* residual = nullptr;
  float* mean = nullptr;
  float* total = nullptr;

  Further(const LayerNorm&, const Addresses& a)
      : bias(a.in(LayerNorm::bias)),
        residual(a.in<void>(LayerNorm::residual)),
        mean(a.out(LayerNorm::mean)),
        total(a.out(LayerNorm::total)) {}
  Further(const RmsNorm&, const Addresses&) {}
};

template <class Op>
KernelPtr forward_kernel(const Op& op, const KernelIo& io, DType residual = DType::f32) {
  const Rows rows = rows_of(io.inputs[Op::x]);
  return for_rows(
      rows, io.outputs[Op::y].dtype, residual, [&]<int threads, int lanes, class Y, class Residual>() {
        return cuda_kernel(
            io, [=, eps = static_cast<float>(op.eps)](const Addresses& a, cudaStream_t stream) {
              if (rows.count == 0) return;
              const Further further(op, a);
              launch(normalise<threads, lanes, Y, Residual>, parts_of(rows.count * threads, block), block, 0,
                     stream, rows, eps, a.in(Op::x), a.in(Op::weight), further.bias,
                     static_cast<const Residual*>(further.residual), a.template out<Y>(Op::y), further.mean,
                     a.out(Op::rstd), further.total);
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
