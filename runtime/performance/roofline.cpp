#include "runtime/performance/roofline.h"

#include <algorithm>

#include "kernels/batch_norm.h"
#include "kernels/cast.h"
#include "kernels/pointwise.h"
#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

using model::Node;

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

std::string name_of(const Plan& plan, const Step& step) {
  switch (step.kind) {
    case Step::Kind::launch:
      return plan.graph.nodes()[step.index].op->name();
    case Step::Kind::update:
      return "update";
    case Step::Kind::average:
      return "average";
    case Step::Kind::add_rows:
      return "add_rows";
    case Step::Kind::clip:
      return "clip";
    case Step::Kind::end_step:
      return "end_step";
    default:
      return "begin_step";
  }
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
  const double busy = work.tiles > 0 ? std::min(1.0, work.tiles / gpu.multiprocessors) : 1;
  const double computed = work.flops / (reached.of_flops * rate_of(work.unit, gpu) * busy);
  const double moved = work.bytes / (reached.of_memory * gpu.memory);
  const double launched = work.launches * least_kernel_seconds;
  PredictedTime time{launched + std::max(computed, moved), Limit::launches};
  if (std::max(computed, moved) > launched) time.limit = computed > moved ? Limit::flops : Limit::memory;
  return time;
}

std::vector<PredictedStep> predict_steps(const Plan& plan, const GpuFigures& gpu) {
  std::vector<PredictedStep> steps;
  for (const Step& step : plan.steps) {
    PredictedStep& predicted = steps.emplace_back();
    predicted.work = work_of(plan, step);
    if (predicted.work.empty()) continue;
    predicted.name = name_of(plan, step);
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
  const double batch =
      static_cast<double>(plan.bytes_of(model::Role::input) + plan.bytes_of(model::Role::target));
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
    if (step.work.empty() || !half) return 0.0;
    KernelWork work = step.work.front();
    if (work.kind != WorkKind::attention && work.kind != WorkKind::tensor_core_attention) return 0.0;
    const double computed = work.flops / (best_attention * gpu.half);
    work.flops = 0;
    return std::max(0.0, step.time.seconds - std::max(computed, time_of(work, gpu).seconds));
  });
  const double wide = seconds_of(plan, steps, [&](const Node& node, const PredictedStep& step) {
    if (!half || step.work.empty() || step.work.front().kind != WorkKind::pass) return 0.0;
    if (step.time.limit != Limit::memory) return 0.0;
    const auto is_activation = [&](model::ValueId id) {
      return plan.graph.value(id).role == model::Role::activation;
    };
    if (node.op->as<Cast>() != nullptr)  // between layers there is then nothing to cast
      return is_activation(node.inputs.front()) && is_activation(node.outputs.front()) ? step.time.seconds
                                                                                       : 0.0;
    double bytes = 0;
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const model::ValueId id : *ids) {
        const model::Value& value = plan.graph.value(id);
        if (is_activation(id) && value.type.dtype == DType::f32)
          bytes += static_cast<double>(allocated_bytes(value)) / 2;
      }
    }
    return bytes / (efficiency_of(WorkKind::pass).of_memory * gpu.memory);
  });
  const double gelu = seconds_of(plan, steps, [&](const Node& node, const PredictedStep& step) {
    const auto* op = node.op->as<Pointwise>();
    const bool alone = op != nullptr && op->step_count == 1;
    return half && alone && op->steps[0].function == PointwiseFunction::gelu_tanh ? step.time.seconds : 0;
  });
  std::vector<Saving> savings{
      {"attention at the rate of cuDNN's, from Hopper on by wgmma", attention},
      {"activations that are f32 between layers in half types: of residuals and embeddings, which autocast "
       "leaves in f32",
       wide},
      {"GELU and its gradient in the epilogues of the products beside them", gelu},
      {"batch norm's statistics in the convolutions that write its input",
       all_of(static_cast<const BatchStatistics*>(nullptr))},
      {"batch norm's backward in one kernel that keeps its tile",
       all_of(static_cast<const BatchNormSums*>(nullptr))},
  };
  std::erase_if(savings, [](const Saving& saving) { return saving.seconds < least_kernel_seconds; });
  std::ranges::sort(savings, std::greater{}, &Saving::seconds);
  return savings;
}

}  // namespace lockstep::runtime
