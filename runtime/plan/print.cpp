#include "runtime/plan/print.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "kernels/conv2d.h"
#include "kernels/linear_gelu.h"

namespace lockstep::runtime {
namespace {

std::string describe(const model::Graph& graph, model::ValueId id) {
  const model::Value& value = graph.value(id);
  const Shape& shape = value.type.shape;
  std::string text = is_half(value.type.dtype) ? value.type.str() : shape.str();
  if (!value.layout || value.layout->is_row_major(shape)) return text;
  const bool has_room = value.layout->is_row_major(value.layout->padded);
  text += has_room ? " in " + value.layout->padded.str() : ":" + value.layout->str();
  return text;
}

std::string list(const model::Graph& graph, const std::vector<model::ValueId>& ids) {
  std::string text;
  for (const model::ValueId id : ids) {
    const model::Role role = graph.value(id).role;
    if (role == model::Role::step_state || role == model::Role::control) continue;
    text += (text.empty() ? "" : ", ") + describe(graph, id);
  }
  return text;
}

std::string size(std::size_t bytes) {
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  if (bytes < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

double flops_of(const model::Graph& graph, const model::Node& node) {
  return node.op->flops(graph.types(node.inputs), graph.types(node.outputs));
}

std::string batch_of(const Plan& plan) {
  if (plan.request.micro_batches == 1) return std::to_string(plan.key().batch);
  return fmt::format("{} x {}", plan.request.micro_batches, plan.key().batch);
}

std::string_view stream_label(const Step& step) {
  if (step.stream == StreamName::compute) return "compute";
  if (step.stream == StreamName::update) return "update";
  return step.queued ? "exchange q" : "exchange";
}

std::string text_of(const model::Op& op) {
  return op.name() + (op.attributes().empty() ? "" : " " + op.attributes());
}

/// As wide as the longest entry of a plan.
struct Columns {
  explicit Columns(const Plan& plan) {
    for (const model::Node& node : plan.graph.nodes()) {
      layer = std::max(layer, node.layer.size());
      op = std::max(op, text_of(*node.op).size());
    }
  }

  std::size_t layer = 5;
  std::size_t op = 2;
};

std::string node_line(const model::Graph& graph, const model::Node& node, const Columns& width) {
  return fmt::format("{:<{}}  {:<{}}  {:>9.2f}  {} -> {}\n", node.layer, width.layer, text_of(*node.op),
                     width.op, flops_of(graph, node) / 1e6, list(graph, node.inputs),
                     list(graph, node.outputs));
}

std::string step_line(const Plan& plan, std::size_t at, const Columns& width) {
  const Step& step = plan.steps[at];
  const bool is_node = step.kind == Step::Kind::launch;
  return fmt::format(
      "{:4}  {:<10} {}", at, stream_label(step),
      is_node ? node_line(plan.graph, plan.graph.nodes()[step.index], width) : label_of(plan, step) + "\n");
}

/// Where the next step waits for a bucket that this one leaves to it.
std::string deferred_until(const Plan& plan, std::size_t reader) {
  if (reader >= plan.graph.nodes().size()) return ", updated before the next backward";
  return ", updated before the next " + label_of(plan, {.kind = Step::Kind::launch, .index = reader});
}

std::string bucket_lines(const Plan& plan) {
  const bool defers = std::ranges::any_of(
      plan.steps, [](const Step& step) { return step.deferred || step.kind == Step::Kind::keep_state; });
  std::string text = defers ? "\nbuckets, in the order in which they become ready: some are held back to be "
                              "exchanged in the next step's forward\n"
                            : "\nbuckets, in the order of their exchange\n";
  const std::vector<std::size_t> readers = bucket_first_readers(plan.graph, plan.arena);
  for (std::size_t i = 0; i < plan.arena.buckets.size(); ++i) {
    const Bucket& bucket = plan.arena.buckets[i];
    text += fmt::format("  {}  {:>10}  from {}{}{}\n", i,
                        size(static_cast<std::size_t>(bucket.count) * size_of(plan.arena.gradient_dtype)),
                        bucket.first_parameter, bucket.only_rows ? ", not exchanged but as rows" : "",
                        defers ? deferred_until(plan, readers[i]) : "");
  }
  return text;
}

std::string rows_lines(const Plan& plan) {
  std::string text = plan.arena.rows.empty() ? "" : "\nrows of embeddings, from each rank to all\n";
  for (const RowsSlice& slice : plan.arena.rows) {
    const model::Value& weight = plan.graph.value(plan.graph.parameters()[slice.parameter].value);
    text += fmt::format("  {}  at most {} of {} rows, {}{}\n", slice.name, slice.list.capacity,
                        weight.type.shape[0], size(slice.list.bytes()),
                        slice.overwrites ? "" : ", added to the gradient of its other uses");
  }
  return text;
}

constexpr std::int64_t bytes_a_word = 16;

class Misses {
 public:
  /// `room`: the extent in memory.
  void look_at(DType factors, const std::string& layer, std::int64_t extent, std::int64_t room,
               std::string_view what) {
    const std::int64_t word = bytes_a_word / static_cast<std::int64_t>(size_of(factors));
    if (room % word == 0) return;
    found.push_back(
        fmt::format("{}: {} {} ({} is faster)", layer, extent, what, extent - extent % word + word));
  }

  std::vector<std::string> found;
};

const Shape& room_of(const model::Value& value) {
  return value.layout ? value.layout->padded : value.type.shape;
}

/// None for an op of another kind.
std::optional<kernels::MatmulPrecision> precision_of(const model::Node& node) {
  if (const auto* conv = node.op->as<kernels::Conv2d>()) return conv->precision;
  if (const auto* linear = node.op->as<kernels::Linear>()) return linear->precision;
  if (const auto* gelu = node.op->as<kernels::LinearGelu>()) return gelu->precision;
  return std::nullopt;
}

}  // namespace

double flops_of(const model::Graph& graph) {
  double flops = 0;
  for (const model::Node& node : graph.nodes()) flops += flops_of(graph, node);
  return flops;
}

std::string label_of(const Plan& plan, const Step& step) {
  const auto bucket = [&] {
    return fmt::format("bucket {} ({})", step.index, plan.arena.buckets[step.index].first_parameter);
  };
  const auto rows = [&] { return "rows of " + plan.arena.rows[step.index].name; };
  const char* const of_step_before = step.deferred ? ", of the step before" : "";
  switch (step.kind) {
    case Step::Kind::begin_step:
      return "begin step";
    case Step::Kind::launch: {
      const model::Node& node = plan.graph.nodes()[step.index];
      return node.layer.empty() ? node.op->name() : fmt::format("{} {}", node.layer, node.op->name());
    }
    case Step::Kind::record:
      return fmt::format("record '{}'", plan.events[step.index]);
    case Step::Kind::wait:
      return fmt::format("wait for '{}'", plan.events[step.index]);
    case Step::Kind::all_reduce:
    case Step::Kind::all_reduce_inline:
      return fmt::format("{} of {}{}",
                         plan.arena.buckets[step.index].shards_update ? "reduce-scatter" : "all-reduce",
                         bucket(), step.kind == Step::Kind::all_reduce ? ", behind compute" : "");
    case Step::Kind::gather_parameters:
      return "all-gather of parameters, " + bucket();
    case Step::Kind::gather_rows:
      return "exchange of " + rows() + ", behind compute";
    case Step::Kind::gather_rows_inline:
      return "exchange of " + rows();
    case Step::Kind::add_rows:
      return "add " + rows() + of_step_before;
    case Step::Kind::sum_statistics:
      return "all-reduce of the " + plan.arena.statistics[step.index].name;
    case Step::Kind::await_compute:
      return "wait for compute";
    case Step::Kind::join:
      return "join the exchange queue";
    case Step::Kind::hand_over_held:
      return "hand what was held back to the exchange queue";
    case Step::Kind::await_bucket:
      return "wait for the sum of " + bucket() + of_step_before;
    case Step::Kind::await_rows:
      return "wait for " + rows() + of_step_before;
    case Step::Kind::keep_state:
      return "keep the step's state for its updates";
    case Step::Kind::clip:
      return plan.request.clip_grad_norm > 0
                 ? fmt::format("clip gradients to norm {}", plan.request.clip_grad_norm)
                 : "look for gradients that are not finite";
    case Step::Kind::update:
      return "update of " + bucket() + of_step_before;
    case Step::Kind::average:
      return "average of weights, " + bucket() + of_step_before;
    case Step::Kind::end_step:
      return "end step";
  }
  return {};
}

std::string warning_of(const Plan& plan) {
  if (plan.warnings.empty()) return {};
  return fmt::format("tensor cores are slower where a dimension is no whole number of 16 bytes: {}",
                     fmt::join(plan.warnings, ", "));
}

std::string fallback_warning_of(const Plan& plan) {
  if (plan.unavailable_algorithms.empty()) return {};
  return fmt::format(
      "the library does not offer here what an earlier --benchmark chose; it takes its own choice for {}",
      fmt::join(plan.unavailable_algorithms, ", "));
}

std::string to_text(const Plan& plan, const MemoryNeed& need, std::span<const std::string> notes) {
  const std::int64_t micro_batches = plan.request.micro_batches;
  std::string text = fmt::format(
      "batch {} per rank, {} parameters, {:.1f} MFLOP a step, products at {} precision, convolutions at {}\n",
      batch_of(plan), plan.graph.parameter_elements(),
      flops_of(plan.graph) * static_cast<double>(micro_batches) / 1e6, name_of(plan.matmul_precision),
      conv_name_of(plan.conv_precision));
  if (plan.compute_dtype != DType::f32) {
    text += fmt::format("mixed precision: {} where torch.autocast has it\n", name_of(plan.compute_dtype));
  }
  if (micro_batches > 1) {
    text +=
        "the step's last micro-batch: those before neither exchange nor update, the first overwrites "
        "the gradients\n";
  }
  text += '\n';
  const Columns width(plan);
  text += fmt::format("{:>4}  {:<10} {:<{}}  {:<{}}  {:>9}  {}\n", "step", "stream", "layer", width.layer,
                      "op", width.op, "MFLOP", "inputs -> outputs");
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    std::string line = step_line(plan, at, width);
    if (!notes.empty() && !notes[at].empty()) line.insert(line.size() - 1, "  | " + notes[at]);
    text += line;
  }
  if (std::ranges::any_of(plan.steps, &Step::queued)) text += "q: on the exchange queue's thread\n";
  if (!plan.warnings.empty()) text += "\n" + warning_of(plan) + "\n";
  text += bucket_lines(plan) + rows_lines(plan);
  if (!plan.arena.statistics.empty()) {
    text += fmt::format("\nstatistics of all ranks: {} exchanges, {}\n", plan.arena.statistics.size(),
                        size(plan.arena.statistics_bytes()));
  }
  text += fmt::format(
      "\nmemory per rank\n  parameters {}\n{}  gradients {}\n  optimizer state {}\n{}  activations {}\n  "
      "workspace {}\n"
      "  batch slots {}\n{}  step state {}\n  staged checkpoint {}\n  peak {} ({} bytes)\n",
      size(need.parameters),
      need.parameter_copies > 0 ? fmt::format("  copies of parameters {}\n", size(need.parameter_copies))
                                : std::string(),
      size(need.gradients), size(need.optimizer_state),
      need.averages > 0 ? fmt::format("  average of weights {}\n", size(need.averages)) : std::string(),
      size(need.activations), size(need.workspace), size(need.batch_slots),
      need.stored > 0 ? fmt::format("  stored samples {}\n", size(need.stored)) : std::string(),
      size(need.step_state), size(need.checkpoint), size(need.total()), need.total());
  if (need.pinned > 0) text += fmt::format("  pinned on the host, for batches {}\n", size(need.pinned));
  return text;
}

std::vector<std::string> tensor_core_misses(const model::Graph& graph) {
  Misses misses;
  for (const model::Node& node : graph.nodes()) {
    const auto precision = precision_of(node);
    const DType factors = precision ? graph.value(node.inputs[0]).type.dtype : DType::f32;
    if (!precision || (*precision == kernels::MatmulPrecision::highest && !is_half(factors))) continue;
    const std::string layer = node.layer.empty() ? node.op->name() : node.layer;
    const model::Value& weights = graph.value(node.inputs[1]);
    const Shape& w = weights.type.shape;
    const Shape& room = room_of(weights);
    const auto* const conv = node.op->as<kernels::Conv2d>();
    if (conv == nullptr) {
      misses.look_at(factors, layer, w.elements(1), room.elements(1), "input features");
      const Shape& y = room_of(graph.value(node.outputs[0]));
      misses.look_at(factors, layer, w[0], y[y.rank() - 1], "output features");
      continue;
    }
    const bool grouped = conv->geometry.groups > 1;
    misses.look_at(factors, layer, w[1], room[1], grouped ? "input channels of a group" : "input channels");
    misses.look_at(factors, layer, w[0] / conv->geometry.groups, room[0] / conv->geometry.groups,
                   grouped ? "output channels of a group" : "output channels");
  }
  return misses.found;
}

}  // namespace lockstep::runtime
