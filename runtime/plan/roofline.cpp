#include "runtime/plan/roofline.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/classifier.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/linear_rows.h"
#include "kernels/recurrent.h"

namespace lockstep::runtime {
namespace {

using model::Node;

/// Of products and convolutions: what reads half types reads them into tensor cores.
MathUnit unit_of(DType dtype, kernels::MatmulPrecision precision) {
  if (is_half(dtype)) return MathUnit::half;
  return precision == kernels::MatmulPrecision::highest ? MathUnit::f32 : MathUnit::tf32;
}

double rounded(std::int64_t extent, std::int64_t multiple) {
  return static_cast<double>((extent + multiple - 1) / multiple * multiple) / static_cast<double>(extent);
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

template <class Op>
bool make_product(const Node& node, const Launch& launch, KernelWork& work) {
  const Op* const op = node.op->as<Op>();
  if (op == nullptr) return false;
  work.kind = WorkKind::product;
  work.unit = unit_of(launch.io.inputs.front().dtype, op->precision);
  return true;
}

/// Three products for each chunk of rows, and between them a pass over its logits, read twice and written.
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
  return {work, {.bytes = 3 * logits, .launches = chunks}};
}

template <class Op>
bool make_recurrence(const Node& node, const Launch& launch, KernelWork& work) {
  const Op* const op = node.op->as<Op>();
  if (op == nullptr) return false;
  const kernels::TensorDesc& states = launch.io.inputs.front();
  work.kind = WorkKind::recurrence;
  work.unit = is_half(states.dtype) ? MathUnit::half : MathUnit::f32;
  work.launches = 2 * static_cast<double>(states.shape[1]);  // a product and the gates for each step
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
  if (node.op->as<Attention>() != nullptr || node.op->as<AttentionBackward>() != nullptr) {
    work.kind = WorkKind::attention;
    // Queries' and keys' gradients are two kernels that both compute the scores and their gradient: seven
    // products, where the op counts five.
    if (node.op->as<AttentionBackward>() != nullptr) work.flops *= 7.0 / 5.0;
    return {work};
  }
  make_recurrence<Rnn>(node, launch, work) || make_recurrence<RnnBackward>(node, launch, work) ||
      make_recurrence<Lstm>(node, launch, work) || make_recurrence<LstmBackward>(node, launch, work);
  return {work};
}

double rate_of(MathUnit unit, const GpuFigures& gpu) {
  if (unit == MathUnit::half) return gpu.half;
  return unit == MathUnit::tf32 ? gpu.tf32 : gpu.f32;
}

double ring(int members, double bytes, double bytes_per_s) {
  return members > 1 ? 2.0 * (members - 1) / members * bytes / bytes_per_s : 0;
}

double rate_in_node(const GpuFigures& gpu) {
  return gpu.nvlink > 0 ? gpu.nvlink * nvlink_efficiency : gpu.pcie * pcie_exchange_efficiency;
}

template <class Chosen>
double seconds_of(const Plan& plan, const std::vector<PredictedStep>& steps, Chosen chosen) {
  double seconds = 0;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& step = plan.steps[at];
    if (step.kind != Step::Kind::launch) continue;
    seconds += chosen(plan.graph.nodes()[step.index], steps[at]);
  }
  return seconds;
}

}  // namespace

PredictedTime time_of(const KernelWork& work, const GpuFigures& gpu) {
  const Efficiency& reached = efficiency_of(work.kind);
  const double computed = work.flops / (reached.of_flops * rate_of(work.unit, gpu));
  const double moved = work.bytes / (reached.of_memory * gpu.memory);
  const double launched = work.launches * least_kernel_seconds;
  if (launched >= std::max(computed, moved)) return {launched, Limit::launches};
  return computed > moved ? PredictedTime{computed, Limit::flops} : PredictedTime{moved, Limit::memory};
}

std::vector<KernelWork> work_of(const Plan& plan, const Step& step) {
  const Launch* const launch = plan.launch_of(step);
  if (launch == nullptr || launch->kernel == nullptr) return {};
  if (step.kind == Step::Kind::launch) return node_work(plan, plan.graph.nodes()[step.index], *launch);
  const bool updates = step.kind == Step::Kind::update || step.kind == Step::Kind::average;
  return {{.kind = updates ? WorkKind::update : WorkKind::pass, .bytes = moved_bytes(*launch, updates)}};
}

std::vector<PredictedStep> predict_steps(const Plan& plan, const GpuFigures& gpu) {
  std::vector<PredictedStep> steps;
  for (const Step& step : plan.steps) {
    PredictedStep& predicted = steps.emplace_back();
    predicted.work = work_of(plan, step);
    if (predicted.work.empty()) continue;
    const bool is_update = step.kind == Step::Kind::update;
    predicted.name = step.kind == Step::Kind::launch ? plan.graph.nodes()[step.index].op->name()
                                                     : (is_update ? "update" : "step state");
    double longest = 0;
    for (const KernelWork& work : predicted.work) {
      const PredictedTime time = time_of(work, gpu);
      predicted.time.seconds += time.seconds;
      if (time.seconds > longest) predicted.time.limit = time.limit;
      longest = std::max(longest, time.seconds);
    }
  }
  return steps;
}

std::string limit_name(const PredictedStep& step, DType compute_dtype) {
  if (step.time.limit == Limit::memory) return "memory";
  if (step.time.limit == Limit::launches) return "launches";
  const MathUnit unit = step.work.front().unit;
  if (unit == MathUnit::f32) return "f32 units";
  return std::string("tensor cores, ") +
         std::string(unit == MathUnit::tf32 ? std::string_view("tf32") : name_of(compute_dtype));
}

double exchange_seconds(const Cluster& cluster, const GpuFigures& gpu, double bytes) {
  if (cluster.ranks == 1) return 0;
  double seconds = exchange_latency_seconds + ring(cluster.most_on_a_node(), bytes, rate_in_node(gpu));
  if (cluster.nodes() > 1) {
    seconds += exchange_latency_seconds * (cluster.nodes() - 1) +
               ring(cluster.nodes(), bytes, cluster.link_bytes_per_s * link_efficiency);
  }
  return seconds;
}

double gather_seconds(const Cluster& cluster, const GpuFigures& gpu, double bytes) {
  if (cluster.ranks == 1) return 0;
  const int members = cluster.most_on_a_node();
  double seconds = exchange_latency_seconds;
  if (members > 1) seconds += (cluster.ranks - 1) * bytes / rate_in_node(gpu);
  if (cluster.nodes() > 1) {
    seconds += members * (cluster.nodes() - 1) * bytes / (cluster.link_bytes_per_s * link_efficiency);
  }
  return seconds;
}

GpuStep predict_on_gpu(const Plan& plan, const std::vector<PredictedStep>& steps, const Cluster& cluster,
                       const GpuFigures& gpu) {
  WorkTimes work;
  double nodes = 0;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& step = plan.steps[at];
    work[{step.kind, step.index}] = steps[at].time.seconds;
    // Few bytes, for which compute waits.
    if (step.kind == Step::Kind::sum_statistics && cluster.ranks > 1)
      work[{step.kind, step.index}] = exchange_latency_seconds;
    if (step.kind == Step::Kind::launch) nodes += steps[at].time.seconds;
  }
  std::vector<ExchangeTime> exchanges;
  for (const Bucket& bucket : plan.arena.buckets) {
    const double bytes =
        static_cast<double>(bucket.count) * static_cast<double>(size_of(plan.arena.gradient_dtype));
    exchanges.push_back({.seconds = exchange_seconds(cluster, gpu, bytes)});
  }
  std::vector<ExchangeTime> rows;
  for (const RowsSlice& slice : plan.arena.rows)
    rows.push_back({.seconds = gather_seconds(cluster, gpu, static_cast<double>(slice.list.bytes()))});
  GpuStep step{.timeline = simulate_streams(plan.steps, work, exchanges, rows)};
  const double besides = step_overhead_seconds + static_cast<double>(plan.request.micro_batches - 1) * nodes;
  step.timeline.step += besides;
  step.timeline.compute += besides;
  const double batch = static_cast<double>(plan.input_bytes() + plan.target_bytes());
  step.input_seconds =
      static_cast<double>(plan.request.micro_batches) * batch / (gpu.pcie * pcie_copy_efficiency);
  return step;
}

std::vector<Saving> possible_savings(const Plan& plan, const std::vector<PredictedStep>& steps,
                                     const GpuFigures& gpu) {
  using namespace kernels;
  const bool half = is_half(plan.compute_dtype);
  const auto all_of = [&]<class Op>(const Op*) {
    return seconds_of(plan, steps, [](const Node& node, const PredictedStep& step) {
      return node.op->as<Op>() != nullptr ? step.time.seconds : 0;
    });
  };
  const double attention = seconds_of(plan, steps, [&](const Node&, const PredictedStep& step) {
    if (step.work.empty() || step.work.front().kind != WorkKind::attention || !half) return 0.0;
    KernelWork work = step.work.front();
    const double computed = work.flops / (attention_on_tensor_cores * gpu.half);
    work.flops = 0;
    return std::max(0.0, step.time.seconds - std::max(computed, time_of(work, gpu).seconds));
  });
  const double wide = seconds_of(plan, steps, [&](const Node& node, const PredictedStep& step) {
    if (!half || step.work.empty() || step.work.front().kind != WorkKind::pass) return 0.0;
    if (step.time.limit != Limit::memory) return 0.0;
    double bytes = 0;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const model::ValueId id : *ids) {
        const model::Value& value = plan.graph.value(id);
        if (value.role == model::Role::activation && value.type.dtype == DType::f32)
          bytes += static_cast<double>(stored_bytes(value)) / 2;
      }
    }
    return bytes / (efficiency_of(WorkKind::pass).of_memory * gpu.memory);
  });
  std::vector<Saving> savings{
      {"attention on tensor cores, not on f32 units", attention},
      {"activations that are f32 between layers (norms, residuals) in half types", wide},
      {"batch norm's statistics in the convolutions that write its input",
       all_of(static_cast<const BatchStatistics*>(nullptr))},
      {"batch norm's backward in one kernel that keeps its tile",
       all_of(static_cast<const BatchNormSums*>(nullptr))},
  };
  std::erase_if(savings, [](const Saving& saving) { return saving.seconds <= 0; });
  std::ranges::sort(savings, std::greater{}, &Saving::seconds);
  return savings;
}

}  // namespace lockstep::runtime
