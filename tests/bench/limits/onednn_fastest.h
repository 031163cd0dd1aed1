#pragma once

#include <algorithm>
#include <dnnl.hpp>
#include <limits>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/matmul.h"
#include "tests/gpu/shares/timing.h"

/// How oneDNN itself is timed: every implementation of a primitive, with layouts of its own choice. Version 2
/// builds a primitive from an operation descriptor, version 3 from its fields.
namespace lockstep::bench {

inline constexpr double no_seconds = std::numeric_limits<double>::infinity();
inline constexpr double seconds_an_implementation = 0.15;

inline dnnl::memory::desc in_any_layout(DType type, dnnl::memory::dims dims) {
  using dnnl::memory;
  const auto dtype = type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  return {std::move(dims), dtype, memory::format_tag::any};
}

#if DNNL_VERSION_MAJOR >= 3
template <class Primitive>
using Description = typename Primitive::primitive_desc;

template <class Primitive, class... Described>
Description<Primitive> describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                const Described&... fields) {
  return {engine, fields..., attr};
}
template <class Primitive, class Hint, class... Described>
Description<Primitive> describe_gradient(const dnnl::engine& engine, const Hint& hint,
                                         const Described&... fields) {
  return {engine, fields..., hint};
}
#else
/// With the operation's descriptor, to which version 2 keeps a pointer for the implementations that follow.
template <class Primitive>
struct Description : Primitive::primitive_desc {
  std::shared_ptr<const typename Primitive::desc> operation;
};

template <class Primitive, class... Described>
Description<Primitive> describe(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                const Described&... fields) {
  const auto operation = std::make_shared<const typename Primitive::desc>(fields...);
  return {{*operation, attr, engine}, operation};
}
template <class Primitive, class Hint, class... Described>
Description<Primitive> describe_gradient(const dnnl::engine& engine, const Hint& hint,
                                         const Described&... fields) {
  const auto operation = std::make_shared<const typename Primitive::desc>(fields...);
  return {{*operation, engine, hint}, operation};
}
#endif

/// What follows in the same pass; GELU is a kernel of its own.
inline dnnl::primitive_attr epilogue_of(kernels::Activation activation) {
  dnnl::primitive_attr attr;
  if (activation != kernels::Activation::relu) return attr;
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#else
  after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#endif
  attr.set_post_ops(after);
  return attr;
}

/// `of` a convolution or a product, which may have a bias.
template <class Layer>
std::vector<int> with_bias(const Layer& of, std::vector<int> arguments, int bias) {
  if (of.bias) arguments.push_back(bias);
  return arguments;
}

inline double seconds_of(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& description,
                         const std::vector<int>& arguments, const dnnl::engine& engine) {
  std::unordered_map<int, dnnl::memory> tensors;
  for (const int argument : arguments) {
    dnnl::memory tensor(description.query_md(dnnl::query::exec_arg_md, argument), engine);
    // As ours are: a processor may run faster on zeros.
    shares::fill_with_random(
        {static_cast<std::byte*>(tensor.get_data_handle()), tensor.get_desc().get_size()});
    tensors.emplace(argument, std::move(tensor));
  }
  dnnl::stream stream(engine);
  return shares::shortest(
      [&] {
        primitive.execute(stream, tensors);
        stream.wait();
      },
      seconds_an_implementation);
}

/// Of all implementations that follow each other in `description`, but for references.
template <class Primitive>
double fastest(Description<Primitive> description, const std::vector<int>& arguments,
               const dnnl::engine& engine) {
  double best = no_seconds;
  do {
    if (std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos) continue;
    best = std::min(best, seconds_of(Primitive(description), description, arguments, engine));
  } while (description.next_impl());
  return best;
}

/// `measure()`, or no_seconds where the library has no such primitive.
template <class Measure>
double if_implemented(const Measure& measure) {
  try {
    return measure();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return no_seconds;
  }
}

}  // namespace lockstep::bench
