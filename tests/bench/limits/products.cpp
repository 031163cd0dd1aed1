#include <optional>

#include "kernels/classifier.h"
#include "kernels/recurrent.h"
#include "tests/bench/limits/comparison.h"
#include "tests/bench/limits/fused_products.h"
#include "tests/bench/limits/onednn_product.h"

namespace lockstep::bench {
namespace {

using namespace kernels;
using Result = Product::Result;

template <class Spec>
constexpr Result result_of() {
  if constexpr (MatmulForward<Spec>) {
    return Result::y;
  } else {
    return MatmulBackwardWeights<Spec> ? Result::w : Result::x;
  }
}

template <class Spec>
Product product_of(const Spec& spec, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(spec, io);
  Product product{.result = result_of<Spec>(),
                  .size = matmul_size(t.x.shape, t.w.shape),
                  .factors = (result_of<Spec>() == Result::x ? t.y : t.x).dtype,
                  .result_dtype = io.outputs[0].dtype,
                  .bias = t.b != nullptr};
  if constexpr (MatmulForward<Spec>) product.activation = spec.activation;
  return product;
}

/// The op as a linear map or a gradient of one; none for anything else.
std::optional<Product> linear_of(const model::Op& op, const KernelIo& io) {
  if (const auto* forward = op.as<Linear>()) return product_of(*forward, io);
  if (const auto* data = op.as<LinearBackwardData>()) return product_of(*data, io);
  if (const auto* weights = op.as<LinearBackwardWeights>()) return product_of(*weights, io);
  return std::nullopt;
}

Comparison compared(const Product& product, std::string what, int count, std::function<double()> ours) {
  return {.what = std::move(what),
          .dtype = product.factors,
          .count = count,
          .flops = product.size.flops(),
          .ours = std::move(ours),
          .onednn = [product] { return onednn_seconds(product); }};
}

/// The product of one step. The first step of forward and the last of backward have none without a state
/// before the sequence.
template <class Op>
Comparison step_of(const Op& op, const TensorDesc& states, Device& device, StepDirection direction) {
  const bool forward = direction == StepDirection::forward;
  const std::int64_t hidden = states.shape[2];
  const std::int64_t gates = Op::gates * hidden;
  const Product product{.size = {states.shape[1], forward ? hidden : gates, forward ? gates : hidden},
                        .factors = states.dtype};
  const auto steps = static_cast<int>(states.shape[0]);
  return compared(product, product.str() + ", a step of " + std::string(Op::name),
                  op.h0() == no_operand ? steps - 1 : steps, [states, direction, &device] {
                    return seconds_of_step_product(states, Op::gates, direction, device);
                  });
}

Comparisons recurrent_of(const model::Op& op, const KernelIo& io, Device& device) {
  const auto forward = [&]<class Spec>(const Spec& spec) {
    return Comparisons{step_of(spec, io.outputs[Spec::y], device, StepDirection::forward)};
  };
  const auto backward = [&]<class Spec>(const Spec& spec) {
    const TensorDesc& dpre = io.outputs[Spec::dpre];
    const TensorType states = states_of(size_of_gates(dpre.shape, Spec::gates), dpre.dtype);
    return Comparisons{step_of(spec, {states.dtype, states.shape, {}}, device, StepDirection::backward)};
  };
  if (const auto* rnn = op.as<Rnn>()) return forward(*rnn);
  if (const auto* lstm = op.as<Lstm>()) return forward(*lstm);
  if (const auto* rnn = op.as<RnnBackward>()) return backward(*rnn);
  if (const auto* lstm = op.as<LstmBackward>()) return backward(*lstm);
  return {};
}

Comparisons classifier_of(const ClassifierLoss& op, const KernelIo& io, Device& device) {
  using Op = ClassifierLoss;
  const TensorDesc& x = io.inputs[Op::x];
  const MatmulSize size = matmul_size(x.shape, io.inputs[Op::weight].shape);
  Comparisons all;
  for (const auto& [result, dtype] :
       {std::pair{Result::y, DType::f32}, std::pair{Result::x, x.dtype}, std::pair{Result::w, DType::f32}}) {
    const Product product{.result = result, .size = size, .factors = x.dtype, .result_dtype = dtype};
    all.push_back(compared(product, product.str() + ", of the classifier", 1,
                           [op, size, type = x.dtype, result = result, &device] {
                             return seconds_of_classifier_product(op, size, type, result, device);
                           }));
  }
  return all;
}

}  // namespace

Comparisons products_of(const model::Op& op, const KernelIo& io, Device& device) {
  if (const auto linear = linear_of(op, io)) {
    return {compared(*linear, linear->str(), 1,
                     [&op, io, &device] { return seconds_of_kernel(op, io, device); })};
  }
  if (const auto* classifier = op.as<ClassifierLoss>()) return classifier_of(*classifier, io, device);
  return recurrent_of(op, io, device);
}

}  // namespace lockstep::bench
