#include "tests/bench/limits/onednn_convolution.h"

#include "tests/bench/limits/onednn_fastest.h"

namespace lockstep::bench {
namespace {

using dnnl::memory;
using Result = Convolution::Result;

memory::dims dims_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

memory::dims filter_dims(const Convolution& convolution) {
  memory::dims dims = dims_of(convolution.w.shape);
  if (convolution.geometry.groups == 1) return dims;
  dims.front() /= convolution.geometry.groups;
  dims.insert(dims.begin(), convolution.geometry.groups);
  return dims;
}

memory::desc bias_of(const Convolution& convolution, DType dtype) {
  return convolution.bias ? in_any_layout(dtype, {convolution.y.shape[1]}) : memory::desc();
}

/// What a primitive of each direction is described with.
struct Fields {
  explicit Fields(const Convolution& convolution)
      : x(in_any_layout(convolution.x.dtype, dims_of(convolution.x.shape))),
        w(in_any_layout(convolution.x.dtype, filter_dims(convolution))),
        dw(in_any_layout(convolution.w.dtype, filter_dims(convolution))),
        y(in_any_layout(convolution.y.dtype, dims_of(convolution.y.shape))),
        b(bias_of(convolution, convolution.x.dtype)),
        db(bias_of(convolution, convolution.w.dtype)),
        stride(convolution.geometry.stride.begin(), convolution.geometry.stride.end()),
        padding(convolution.geometry.padding.begin(), convolution.geometry.padding.end()) {
    for (const std::int64_t step : convolution.geometry.dilation) gaps.push_back(step - 1);
  }

  memory::desc x, w, dw, y, b, db;  ///< dw and db may be f32 where the rest is bf16
  memory::dims stride, padding, gaps;
};

double fastest_by(dnnl::algorithm algorithm, const Convolution& of, const Fields& f,
                  const dnnl::engine& engine) {
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;
  const auto forward =
      describe<Forward>(engine, epilogue_of(of.activation), dnnl::prop_kind::forward_training, algorithm, f.x,
                        f.w, f.b, f.y, f.stride, f.gaps, f.padding, f.padding);
  switch (of.result) {
    case Result::y:
      return fastest<Forward>(
          forward, with_bias(of, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, DNNL_ARG_BIAS), engine);
    case Result::x:
      return fastest<Data>(describe_gradient<Data>(engine, forward, algorithm, f.x, f.w, f.y, f.stride,
                                                   f.gaps, f.padding, f.padding),
                           {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, engine);
    case Result::w:
      return fastest<Weights>(
          describe_gradient<Weights>(engine, forward, algorithm, f.x, f.dw, f.db, f.y, f.stride, f.gaps,
                                     f.padding, f.padding),
          with_bias(of, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, DNNL_ARG_DIFF_BIAS),
          engine);
  }
  return no_seconds;
}

}  // namespace

double onednn_seconds(const Convolution& convolution) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Fields fields(convolution);
  double best = no_seconds;
  for (const auto algorithm : {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd}) {
    best = std::min(best, if_implemented([&] { return fastest_by(algorithm, convolution, fields, engine); }));
  }
  return best;
}

}  // namespace lockstep::bench
