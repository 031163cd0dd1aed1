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

/// What a primitive of each direction is described with.
struct Fields {
  explicit Fields(const Convolution& convolution)
      : x(in_any_layout(convolution.x.dtype, dims_of(convolution.x.shape))),
        w(in_any_layout(convolution.x.dtype, filter_dims(convolution))),
        dw(in_any_layout(convolution.w.dtype, filter_dims(convolution))),
        y(in_any_layout(convolution.y.dtype, dims_of(convolution.y.shape))),
        stride(convolution.geometry.stride.begin(), convolution.geometry.stride.end()),
        padding(convolution.geometry.padding.begin(), convolution.geometry.padding.end()) {
    for (const std::int64_t step : convolution.geometry.dilation) gaps.push_back(step - 1);
  }

  memory::desc x, w, dw, y;  ///< dw may be f32 where the rest is bf16
  memory::dims stride, padding, gaps;
};

double fastest_by(dnnl::algorithm algorithm, Result result, const Fields& f, const dnnl::engine& engine) {
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;
  const auto forward = describe<Forward>(engine, {}, dnnl::prop_kind::forward_training, algorithm, f.x, f.w,
                                         f.y, f.stride, f.gaps, f.padding, f.padding);
  switch (result) {
    case Result::y:
      return fastest<Forward>(forward, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, engine);
    case Result::x:
      return fastest<Data>(describe_gradient<Data>(engine, forward, algorithm, f.x, f.w, f.y, f.stride,
                                                   f.gaps, f.padding, f.padding),
                           {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, engine);
    case Result::w:
      return fastest<Weights>(describe_gradient<Weights>(engine, forward, algorithm, f.x, f.dw, f.y, f.stride,
                                                         f.gaps, f.padding, f.padding),
                              {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, engine);
  }
  return no_seconds;
}

}  // namespace

double onednn_seconds(const Convolution& convolution) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Fields fields(convolution);
  double best = no_seconds;
  for (const auto algorithm : {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd}) {
    best = std::min(
        best, if_implemented([&] { return fastest_by(algorithm, convolution.result, fields, engine); }));
  }
  return best;
}

}  // namespace lockstep::bench
