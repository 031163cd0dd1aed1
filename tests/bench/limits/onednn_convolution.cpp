#include "tests/bench/limits/onednn_convolution.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/bench/limits/step.h"

// Version 2 of oneDNN builds a primitive from an operation descriptor, version 3 from its fields.
namespace lockstep::bench {
namespace {

using dnnl::memory;
using Result = Convolution::Result;

constexpr double none = std::numeric_limits<double>::infinity();
constexpr double seconds_an_implementation = 0.15;

memory::desc in_any_layout(DType type, memory::dims dims) {
  const auto dtype = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  return {std::move(dims), dtype, memory::format_tag::any};
}

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

#if DNNL_VERSION_MAJOR >= 3
template <class Primitive, class... Described>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const Described&... fields) {
  return {engine, fields...};
}
template <class Primitive, class Hint, class... Described>
typename Primitive::primitive_desc describe_gradient(const dnnl::engine& engine, const Hint& hint,
                                                     const Described&... fields) {
  return {engine, fields..., hint};
}
#else
template <class Primitive, class... Described>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const Described&... fields) {
  return {typename Primitive::desc(fields...), engine};
}
template <class Primitive, class Hint, class... Described>
typename Primitive::primitive_desc describe_gradient(const dnnl::engine& engine, const Hint& hint,
                                                     const Described&... fields) {
  return {typename Primitive::desc(fields...), engine, hint};
}
#endif

template <class Description>
double seconds_of(const dnnl::primitive& primitive, const Description& description,
                  const std::vector<int>& arguments, const dnnl::engine& engine) {
  std::unordered_map<int, memory> tensors;
  for (const int argument : arguments) {
    memory tensor(description.query_md(dnnl::query::exec_arg_md, argument), engine);
    std::memset(tensor.get_data_handle(), 0, tensor.get_desc().get_size());
    tensors.emplace(argument, std::move(tensor));
  }
  dnnl::stream stream(engine);
  return shortest(
      [&] {
        primitive.execute(stream, tensors);
        stream.wait();
      },
      seconds_an_implementation);
}

/// Of all implementations that follow each other in `description`.
template <class Primitive>
double fastest(typename Primitive::primitive_desc description, const std::vector<int>& arguments,
               const dnnl::engine& engine) {
  double best = none;
  do {
    if (std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos) continue;
    best = std::min(best, seconds_of(Primitive(description), description, arguments, engine));
  } while (description.next_impl());
  return best;
}

double fastest_by(dnnl::algorithm algorithm, Result result, const Fields& f, const dnnl::engine& engine) {
  using Forward = dnnl::convolution_forward;
  using Data = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;
  const auto forward = describe<Forward>(engine, dnnl::prop_kind::forward_training, algorithm, f.x, f.w, f.y,
                                         f.stride, f.gaps, f.padding, f.padding);
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
  return none;
}

}  // namespace

double onednn_seconds(const Convolution& convolution) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Fields fields(convolution);
  double best = none;
  for (const auto algorithm : {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd}) {
    try {
      best = std::min(best, fastest_by(algorithm, convolution.result, fields, engine));
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  return best;
}

}  // namespace lockstep::bench
