#include "kernels/cpu/onednn.h"

// Version 2 builds a primitive from an operation descriptor, version 3 from its fields. `make` hides that.
namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

dnnl::primitive_attr attributes(Activation activation, MatmulPrecision precision) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (rounds_to_bf16(precision)) attr.set_fpmath_mode(dnnl::fpmath_mode::bf16);
  if (activation == Activation::relu) {
    dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
    after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#else
    after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
#endif
    attr.set_post_ops(after);
  }
  return attr;
}

#if DNNL_VERSION_MAJOR >= 3
template <class Op, class... Fields>
typename Op::primitive_desc make(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                 const Fields&... fields) {
  return {engine, fields..., attr};
}
template <class Op, class Hint, class... Fields>
typename Op::primitive_desc make_backward(const dnnl::engine& engine, const Hint& hint,
                                          const dnnl::primitive_attr& attr, const Fields&... fields) {
  return {engine, fields..., hint, attr};
}
#else
template <class Op, class... Fields>
typename Op::primitive_desc make(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                 const Fields&... fields) {
  return {typename Op::desc(fields...), attr, engine};
}
template <class Op, class Hint, class... Fields>
typename Op::primitive_desc make_backward(const dnnl::engine& engine, const Hint& hint,
                                          const dnnl::primitive_attr& attr, const Fields&... fields) {
  return {typename Op::desc(fields...), attr, engine, hint};
}
#endif

/// In `type`, in any layout.
memory::desc any_of(const memory::desc& desc, memory::data_type type) {
#if DNNL_VERSION_MAJOR >= 3
  return {desc.get_dims(), type, memory::format_tag::any};
#else
  return {desc.dims(), type, memory::format_tag::any};
#endif
}

memory::data_type type_of(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_data_type();
#else
  return desc.data_type();
#endif
}

dnnl::algorithm algorithm_of(const Algorithm& algorithm) {
  switch (algorithm.kind) {
    case Algorithm::direct:
      return dnnl::algorithm::convolution_direct;
    case Algorithm::winograd:
      return dnnl::algorithm::convolution_winograd;
    case Algorithm::automatic:
    case Algorithm::own_winograd:
    case Algorithm::library_plan:
      break;
  }
  return dnnl::algorithm::convolution_auto;
}

struct Window {
  explicit Window(const Conv2dGeometry& geometry)
      : strides(geometry.stride.begin(), geometry.stride.end()),
        dilates{geometry.dilation[0] - 1, geometry.dilation[1] - 1},
        padding(geometry.padding.begin(), geometry.padding.end()) {}
  memory::dims strides, dilates, padding;
};

using ConvForward = dnnl::convolution_forward;
using InnerProduct = dnnl::inner_product_forward;

ConvForward::primitive_desc forward(const dnnl::engine& engine, const Operands& t,
                                    const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                    const dnnl::primitive_attr& attr) {
  const Window w(geometry);
  return make<ConvForward>(engine, attr, prop_kind::forward_training, algorithm_of(algorithm), t.x, t.weights,
                           t.bias, t.y, w.strides, w.dilates, w.padding, w.padding);
}

InnerProduct::primitive_desc forward(const dnnl::engine& engine, const Operands& t,
                                     const dnnl::primitive_attr& attr) {
  return make<InnerProduct>(engine, attr, prop_kind::forward_training, t.x, t.weights, t.bias, t.y);
}

/// The operands of forward, the hint of weight gradients: those may be f32 where the factors are not, but
/// forward has weights of the factors' type alone.
Operands forward_of(Operands t) {
  if (type_of(t.weights) != type_of(t.x)) t.weights = any_of(t.weights, type_of(t.x));
  return t;
}

}  // namespace

dnnl::primitive_desc_base conv_forward(const dnnl::engine& engine, const Operands& t,
                                       const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                       Activation activation, MatmulPrecision precision) {
  return forward(engine, t, geometry, algorithm, attributes(activation, precision));
}

dnnl::primitive_desc_base conv_backward_data(const dnnl::engine& engine, const Operands& t,
                                             const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                             MatmulPrecision precision) {
  const Window w(geometry);
  const dnnl::primitive_attr attr = attributes(Activation::none, precision);
  return make_backward<dnnl::convolution_backward_data>(
      engine, forward(engine, t, geometry, Algorithm::direct, attr), attr, algorithm_of(algorithm), t.x,
      t.weights, t.y, w.strides, w.dilates, w.padding, w.padding);
}

dnnl::primitive_desc_base conv_backward_weights(const dnnl::engine& engine, const Operands& t,
                                                const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                                MatmulPrecision precision) {
  const Window w(geometry);
  const dnnl::primitive_attr attr = attributes(Activation::none, precision);
  return make_backward<dnnl::convolution_backward_weights>(
      engine, forward(engine, forward_of(t), geometry, Algorithm::direct, attr), attr,
      algorithm_of(algorithm), t.x, t.weights, t.bias, t.y, w.strides, w.dilates, w.padding, w.padding);
}

dnnl::primitive_desc_base linear_forward(const dnnl::engine& engine, const Operands& t, Activation activation,
                                         MatmulPrecision precision) {
  return forward(engine, t, attributes(activation, precision));
}

dnnl::primitive_desc_base linear_backward_data(const dnnl::engine& engine, const Operands& t,
                                               MatmulPrecision precision) {
  const dnnl::primitive_attr attr = attributes(Activation::none, precision);
  return make_backward<dnnl::inner_product_backward_data>(engine, forward(engine, t, attr), attr, t.x,
                                                          t.weights, t.y);
}

dnnl::primitive_desc_base linear_backward_weights(const dnnl::engine& engine, const Operands& t,
                                                  MatmulPrecision precision) {
  const dnnl::primitive_attr attr = attributes(Activation::none, precision);
  return make_backward<dnnl::inner_product_backward_weights>(engine, forward(engine, forward_of(t), attr),
                                                             attr, t.x, t.weights, t.bias, t.y);
}

dnnl::primitive_desc_base matmul(const dnnl::engine& engine, const Operands& t, bool accumulate,
                                 MatmulPrecision precision) {
  dnnl::primitive_attr attr = attributes(Activation::none, precision);
  if (accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.0F);
    attr.set_post_ops(after);
  }
  return make<dnnl::matmul>(engine, attr, t.x, t.weights, t.y);
}

dnnl::primitive make_primitive(const dnnl::primitive_desc_base& description) {
  return dnnl::primitive(description.get());
}

}  // namespace lockstep::kernels::onednn
