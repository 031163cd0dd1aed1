#include "runtime/performance/kernel_work.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/base/division.h"
#include "kernels/classifier.h"
#include "kernels/conv2d.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/linear_gelu.h"
#include "kernels/linear_rows.h"
#include "kernels/recurrent.h"
#include "kernels/rms_norm.h"
#include "kernels/tensor_cores.h"

namespace lockstep::runtime {
namespace {

using model::Node;

/// Of products and convolutions: what reads half types reads them into tensor cores.
MathUnit unit_of(DType dtype, kernels::MatmulPrecision precision) {
  if (is_half(dtype)) return MathUnit::half;
  return precision == kernels::MatmulPrecision::highest ? MathUnit::f32 : MathUnit::tf32;
}

double rounded(std::int64_t extent, std::int64_t multiple) {
  return static_cast<double>(rounded_up(extent, multiple)) / static_cast<double>(extent);
}

bool has_note(const kernels::LibraryPlan& plan, std::string_view note) {
  return std::ranges::find(plan.notes, note) != plan.notes.end();
}

/// `images`: the operand with the bias gradient's rows, or what follows apart is applied to.
template <class Op>
std::vector<KernelWork> convolution(const Op& op, const Launch& launch, KernelWork work,
                                    const kernels::TensorDesc& w, const kernels::TensorDesc& y) {
  work.kind = op.geometry.groups > 1 ? WorkKind::grouped_convolution : WorkKind::convolution;
  work.unit = unit_of(y.dtype, op.precision);
  const auto plan = launch.kernel->library_plan();
  if (plan && !has_note(*plan, "TENSOR_CORE")) work.unit = MathUnit::f32;
  // Tensor cores take words of 16 bytes along the channels.
  const std::int64_t word = work.unit == MathUnit::f32 ? 1 : 16 / static_cast<std::int64_t>(size_of(y.dtype));
  if (op.geometry.groups == 1) work.flops *= rounded(w.shape[0], word) * rounded(w.shape[1], word);
  // What the library keeps aside it writes and reads: transposed tensors, or partial sums.
  work.bytes += 2 * static_cast<double>(launch.kernel->workspace_bytes());
  std::vector<KernelWork> parts{work};
  if (plan && has_note(*plan, "bias and relu apart"))
    parts.push_back({.bytes = 2 * static_cast<double>(y.bytes())});
  return parts;
}

std::vector<KernelWork> conv_work(const Node& node, const Launch& launch, const KernelWork& work) {
  const auto& in = launch.io.inputs;
  const auto& out = launch.io.outputs;
  if (const auto* op = node.op->as<kernels::Conv2d>())
    return convolution(*op, launch, work, in[kernels::Conv2d::w], out[kernels::Conv2d::y]);
  if (const auto* op = node.op->as<kernels::Conv2dBackwardData>()) {
    using Op = kernels::Conv2dBackwardData;
    return convolution(*op, launch, work, in[Op::w], in[Op::dy]);
  }
  if (const auto* op = node.op->as<kernels::Conv2dBackwardWeights>()) {
    using Op = kernels::Conv2dBackwardWeights;
    auto parts = convolution(*op, launch, work, out[Op::dw], in[Op::dy]);
    if (out.size() > Op::db) parts.push_back({.bytes = static_cast<double>(in[Op::dy].bytes())});
    return parts;
  }
  return {};
}

/// Of a product's result, however they lie.
double tiles_of(std::int64_t rows, std::int64_t columns, MathUnit unit) {
  const ProductTile tile = unit == MathUnit::f32 ? f32_tile : tensor_core_tile;
  const auto count = [](std::int64_t down, std::int64_t across) {
    return static_cast<double>(down * across);
  };
  return std::max(count(parts_of(rows, tile.longer), parts_of(columns, tile.shorter)),
                  count(parts_of(rows, tile.shorter), parts_of(columns, tile.longer)));
}

template <class Op>
bool make_product(const Node& node, const Launch& launch, KernelWork& work) {
  const Op* const op = node.op->as<Op>();
  if (op == nullptr) return false;
  work.kind = WorkKind::product;
  work.unit = unit_of(launch.io.inputs.front().dtype, op->precision);
  const Shape& result = launch.io.outputs.front().shape;
  std::int64_t columns = 1;
  if constexpr (kernels::MatmulBackwardWeights<Op>) {
    columns = result.elements(1);
  } else {
    const Shape& weights = launch.io.inputs[Op::w].shape;
    columns = kernels::MatmulForward<Op> ? weights[0] : weights.elements(1);
  }
  work.tiles = tiles_of(result.elements() / std::max<std::int64_t>(1, columns), columns, work.unit);
  return true;
}

/// Where gelu is a pass of its own, that reads what the product has written: in place, or to y.
template <class Op>
std::vector<KernelWork> gelu_product(const Node& node, const Launch& launch, KernelWork work) {
  if (!make_product<Op>(node, launch, work)) return {};
  const auto plan = launch.kernel->library_plan();
  if (!plan || !has_note(*plan, kernels::gelu_apart_note)) return {work};
  const double result = static_cast<double>(launch.io.outputs.front().bytes());
  KernelWork pass{.bytes = 2 * result};
  const bool is_gradient = node.op->as<kernels::LinearBackwardGelu>() != nullptr;
  if (is_gradient) {
    pass.bytes += result;
    work.bytes -= result;  // the pass reads what the function was taken of, not the product
  } else if (launch.io.outputs.size() > kernels::LinearGelu::pre) {
    work.bytes -= result;
  }
  return {work, pass};
}

/// Three products for each chunk of rows, and between them a pass over its logits, which are read, by most
/// kernels twice, and written.
std::vector<KernelWork> classifier_work(const kernels::ClassifierLoss& op, const Launch& launch,
                                        KernelWork work) {
  using Op = kernels::ClassifierLoss;
  const kernels::TensorDesc& x = launch.io.inputs[Op::x];
  const kernels::TensorDesc& w = launch.io.inputs[Op::weight];
  const kernels::MatmulSize size = kernels::matmul_size(x.shape, w.shape);
  const double logits = static_cast<double>(size.rows * size.outputs) * static_cast<double>(size_of(x.dtype));
  const double chunks = std::ceil(logits / static_cast<double>(Op::gpu_chunk_bytes));
  const double weights = static_cast<double>(w.bytes());
  const double gradient = static_cast<double>(w.shape.elements()) * sizeof(float);
  work.kind = WorkKind::product;
  work.unit = unit_of(x.dtype, op.precision);
  work.launches = (op.has_gradient ? 3 : 1) * chunks;
  work.bytes += 3 * logits + chunks * (2 * weights + 2 * gradient);
  const bool kept = dynamic_cast<const kernels::KeepsLogits*>(launch.kernel.get()) != nullptr;
  const double passes = (kept ? 1 : 2) + (op.has_gradient ? 1 : 0);
  std::vector<KernelWork> parts{work, {.bytes = passes * logits, .launches = chunks}};
  // The bias's gradient: sums of the logits' rows, and the sum of those.
  if (launch.io.outputs.size() > Op::dbias) parts.push_back({.bytes = logits, .launches = 2 * chunks});
  return parts;
}

/// Sums over rows are written for each chunk of them, and added up by a kernel of their own. Of long rows a
/// kernel between the two reads dy and x again.
std::vector<KernelWork> norm_gradients(const Launch& launch, KernelWork work) {
  using Op = kernels::LayerNormBackward;
  static_assert(Op::x == std::size_t{kernels::RmsNormBackward::x});
  const kernels::TensorDesc& x = launch.io.inputs[Op::x];
  const auto sums = static_cast<double>(launch.kernel->workspace_bytes());
  if (x.shape[x.shape.rank() - 1] <= Op::gpu_longest_summed) {
    work.bytes += sums;
    return {work, {.bytes = sums}};
  }
  const auto again = static_cast<double>(launch.io.inputs[Op::dy].bytes() + x.bytes());
  return {work, {.bytes = again + sums}, {.bytes = sums}};
}

template <class Op>
bool make_recurrence(const Node& node, const Launch& launch, KernelWork& work) {
  const Op* const op = node.op->as<Op>();
  if (op == nullptr) return false;
  const kernels::TensorDesc& gates = launch.io.outputs.front();
  const Shape& weight = launch.io.inputs[Op::weight].shape;
  constexpr bool forward = requires {
    Op::pre;
  };
  work.kind = WorkKind::recurrence;
  work.unit = is_half(gates.dtype) ? MathUnit::half : MathUnit::f32;
  work.launches = 2 * static_cast<double>(gates.shape[0]);  // a product and the gates for each step
  work.tiles = tiles_of(gates.shape[1], weight[forward ? 0 : 1], work.unit);
  return true;
}

std::vector<KernelWork> node_work(const Plan& plan, const Node& node, const Launch& launch) {
  using namespace kernels;
  KernelWork work{.flops = node.op->flops(plan.graph.types(node.inputs), plan.graph.types(node.outputs)),
                  .bytes = moved_bytes(launch, false)};
  if (auto parts = conv_work(node, launch, work); !parts.empty()) return parts;
  if (const auto* op = node.op->as<ClassifierLoss>()) return classifier_work(*op, launch, work);
  if (make_product<Linear>(node, launch, work) || make_product<LinearRows>(node, launch, work) ||
      make_product<LinearBackwardData>(node, launch, work) ||
      make_product<LinearBackwardWeights>(node, launch, work)) {
    return {work};
  }
  if (auto parts = gelu_product<LinearGelu>(node, launch, work); !parts.empty()) return parts;
  if (auto parts = gelu_product<LinearBackwardGelu>(node, launch, work); !parts.empty()) return parts;
  if (node.op->as<Attention>() != nullptr || node.op->as<AttentionBackward>() != nullptr) {
    const bool on_tensor_cores = dynamic_cast<const OnTensorCores*>(launch.kernel.get()) != nullptr;
    work.kind = on_tensor_cores ? WorkKind::tensor_core_attention : WorkKind::attention;
    if (on_tensor_cores) work.unit = MathUnit::half;
    // Queries' and keys' gradients are two kernels that both compute the scores and their gradient: seven
    // products, where the op counts five.
    if (node.op->as<AttentionBackward>() != nullptr) work.flops *= 7.0 / 5.0;
    return {work};
  }
  if (node.op->as<LayerNormBackward>() != nullptr || node.op->as<RmsNormBackward>() != nullptr)
    return norm_gradients(launch, work);
  make_recurrence<Rnn>(node, launch, work) || make_recurrence<RnnBackward>(node, launch, work) ||
      make_recurrence<Lstm>(node, launch, work) || make_recurrence<LstmBackward>(node, launch, work);
  return {work};
}

}  // namespace

std::vector<KernelWork> work_of(const Plan& plan, const Step& step) {
  const Launch* const launch = plan.launch_of(step);
  if (launch == nullptr || launch->kernel == nullptr) return {};
  if (step.kind == Step::Kind::launch) return node_work(plan, plan.graph.nodes()[step.index], *launch);
  const bool updates = step.kind == Step::Kind::update || step.kind == Step::Kind::average;
  return {{.kind = updates ? WorkKind::update : WorkKind::pass, .bytes = moved_bytes(*launch, updates)}};
}

}  // namespace lockstep::runtime
