#include "runtime/plan/launches.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/dispatch.h"
#include "kernels/end_step.h"
#include "kernels/gradient_norm.h"
#include "kernels/weight_average.h"
#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

constexpr Operand step_state{.region = Region::step_state};

kernels::TensorDesc described(const model::ValueType& type) {
  return {.dtype = type.dtype, .shape = type.shape, .layout = {}};
}

/// Symbolic addresses of a graph's values.
class OperandMap {
 public:
  OperandMap(const model::Graph& graph, const ArenaPlan& arena, const ActivationPlan& activations,
             const LaunchOptions& options)
      : graph_(graph),
        activations_(activations),
        training_(options.key.trains()),
        parameters_(!training_ && options.average_decay > 0 ? Region::averages : Region::parameters),
        first_(graph.value_count()) {
    for (const ArenaSlice& slice : arena.slices) {
      const model::Parameter& parameter = graph.parameters()[slice.parameter];
      first_[index(parameter.value)] = slice.first;
      for (const model::ValueId id : {parameter.copy, parameter.gradient, parameter.gradient_sum}) {
        if (id != model::no_value) first_[index(id)] = slice.first;
      }
    }
    for (const ArenaSlice& slice : arena.frozen) {
      const model::Parameter& parameter = graph.parameters()[slice.parameter];
      first_[index(parameter.value)] = slice.first;
      if (parameter.copy != model::no_value) first_[index(parameter.copy)] = slice.first;
    }
    for (const BufferSlice& slice : arena.buffers)
      first_[index(graph.buffers()[slice.buffer].value)] = slice.first;
    for (const RowsSlice& slice : arena.rows) {
      const model::ValueId rows = graph.parameters()[slice.parameter].rows;
      if (rows != model::no_value) first_[index(rows)] = slice.first;
    }
    for (std::size_t i = 0; i < graph.statistics().size(); ++i)
      first_[index(graph.statistics()[i])] = arena.statistics[i].first;
  }

  Operand of(model::ValueId id) const {
    Operand operand = of_root(activations_.storage[index(id)]);
    operand.view_offset = activations_.view_offsets[index(id)];
    return operand;
  }

  Operand control() const { return {.region = training_ ? Region::control : Region::evaluation_control}; }

 private:
  Operand of_root(model::ValueId root) const {
    switch (graph_.value(root).role) {
      case model::Role::input:
        return {.region = Region::input};
      case model::Role::stored:
        return {.region = Region::stored};
      case model::Role::target:
        return {.region = Region::target};
      case model::Role::states:
        return {.region = Region::states};
      case model::Role::positions:
        return {.region = Region::positions};
      case model::Role::cache_rows:
        return {.region = Region::cache_rows};
      case model::Role::step_state:
        return step_state;
      case model::Role::control:
        return control();
      case model::Role::parameter:
        return {.region = parameters_, .first = first_[index(root)]};
      case model::Role::parameter_copy:
        return {.region = Region::parameter_copies, .first = first_[index(root)]};
      case model::Role::buffer:
        return {.region = Region::buffers, .first = first_[index(root)]};
      case model::Role::gradient:
        return {.region = Region::gradients, .first = first_[index(root)]};
      case model::Role::gradient_sum:
        return {.region = Region::gradient_sums, .first = first_[index(root)]};
      case model::Role::statistics:
        return {.region = Region::statistics, .first = first_[index(root)]};
      case model::Role::rows:
        return {.region = Region::own_rows,
                .first = first_[index(root)],
                .of_each_rank = graph_.value(root).type.shape.elements()};
      case model::Role::cache:
        return {.region = Region::caches, .first = offset_of(root)};
      case model::Role::activation:
        return {.region = activations_.is_lent[index(root)] ? Region::idle_gradients : Region::activations,
                .first = offset_of(root)};
    }
    throw std::logic_error("a value without a role");
  }

  static std::size_t index(model::ValueId id) { return static_cast<std::size_t>(id); }
  std::int64_t offset_of(model::ValueId root) const {
    return static_cast<std::int64_t>(activations_.offsets[index(root)]);
  }

  const model::Graph& graph_;
  const ActivationPlan& activations_;
  bool training_;
  Region parameters_;
  std::vector<std::int64_t> first_;  ///< in its arena, by value
};

template <class Op>
Launch launch_of(const kernels::Device& device, const Op& op, kernels::KernelIo io,
                 std::vector<Operand> operands) {
  kernels::KernelPtr kernel = kernels::kernel_for(device, op, io);
  return {.kernel = std::move(kernel), .io = std::move(io), .operands = std::move(operands)};
}

Launch begin_step_launch(const LaunchOptions& options, const Operand& control,
                         const kernels::Device& device) {
  kernels::BeginStep begin =
      options.key.trains() ? model::begin_step(options.optimizer) : kernels::BeginStep{.updates = 0};
  begin.continues = !begins_step(options.key.role);
  if (options.scales_gradients) begin.initial_scale = kernels::first_gradient_scale;
  return launch_of(device, begin,
                   {.inputs = {described(kernels::step_input_type())},
                    .outputs = {described(kernels::step_state_type()), described(kernels::control_type())}},
                   {{.region = Region::step_input}, step_state, control});
}

Launch end_step_launch(const Operand& control, const kernels::Device& device) {
  const kernels::TensorDesc block = described(kernels::control_type());
  return launch_of(device, kernels::EndStep{}, {.inputs = {block}, .outputs = {block}},
                   {control, {.region = Region::step_result}});
}

/// Over the whole arena at once: padding is zero, and the updates wait for all of it anyway.
Launch clip_launch(const ArenaPlan& arena, const LaunchOptions& options, const kernels::Device& device) {
  const kernels::GradientNorm norm{
      .max_norm = options.clip_grad_norm,
      .clip_value = options.optimizer.clip_value,
      .growth_interval = options.scales_gradients ? kernels::scale_growth_interval : 0};
  return launch_of(device, norm,
                   {.inputs = {{.dtype = arena.gradient_dtype, .shape = {arena.elements}, .layout = {}}},
                    .outputs = {described(kernels::step_state_type()), described(kernels::control_type())}},
                   {{.region = Region::gradients}, step_state, {.region = Region::control}});
}

Launch add_rows_launch(const model::Graph& graph, const RowsSlice& slice, const OperandMap& operands,
                       const kernels::Device& device) {
  const model::ValueId gradient = graph.parameters()[slice.parameter].gradient;
  const kernels::AddRows add{.capacity = slice.list.capacity, .overwrites = slice.overwrites};
  return launch_of(
      device, add,
      {.inputs = {{.dtype = DType::u8, .shape = {slice.ranks, slice.list_bytes()}, .layout = {}}},
       .outputs = {tensor_desc(graph.value(gradient))}},
      {{.region = Region::rows, .first = slice.first}, operands.of(gradient)});
}

Operand state_for_updates(const LaunchOptions& options) {
  return {.region = options.defers_updates ? Region::kept_state : Region::step_state};
}

Launch update_launch(const Bucket& bucket, const LaunchOptions& options, const ArenaPlan& arena,
                     const kernels::Device& device) {
  const model::OptimizerOptions& optimizer = options.optimizer;
  const DType copies = bucket.has_copies ? arena.copy_dtype : DType::f32;
  const std::int64_t count = updated_elements(bucket, arena.ranks);
  const auto slice = [&](Region region, DType dtype) {
    Operand operand{.region = region, .first = bucket.first};
    if (bucket.shards_update) operand.of_each_rank = count * static_cast<std::int64_t>(size_of(dtype));
    return operand;
  };
  Launch launch{.kernel = nullptr,
                .io = model::update_io(optimizer, count, arena.gradient_dtype, copies),
                .operands = {slice(Region::gradients, arena.gradient_dtype), state_for_updates(options),
                             slice(Region::parameters, arena.dtype)}};
  for (std::size_t state = 0; state < model::state_names(optimizer).size(); ++state) {
    launch.operands.push_back(
        {.region = Region::optimizer_state, .first = bucket.states_first, .state = state});
  }
  if (bucket.has_copies) launch.operands.push_back(slice(Region::parameter_copies, arena.copy_dtype));
  launch.kernel = model::update_kernel(device, optimizer, launch.io, std::min(bucket.decayed, count));
  return launch;
}

Launch average_launch(const Bucket& bucket, const LaunchOptions& options, const kernels::Device& device) {
  const kernels::TensorDesc slice{.dtype = DType::f32, .shape = {bucket.count}, .layout = {}};
  return launch_of(device, kernels::WeightAverage{.decay = options.average_decay},
                   {.inputs = {slice, described(kernels::step_state_type())}, .outputs = {slice}},
                   {{.region = Region::parameters, .first = bucket.first},
                    state_for_updates(options),
                    {.region = Region::averages, .first = bucket.first}});
}

/// To the memory of the node's values, and to what the gradient arena lends it.
void bind_nodes(std::vector<Launch>& nodes, const model::Graph& graph, const OperandMap& operands,
                const ActivationPlan& activations) {
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    Launch& launch = nodes[at];
    const model::Node& node = graph.nodes()[at];
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const model::ValueId id : *ids) launch.operands.push_back(operands.of(id));
    }
    if (const std::size_t lent = activations.workspaces[at]; lent != ActivationPlan::not_here) {
      launch.workspace = {.region = Region::idle_gradients, .first = static_cast<std::int64_t>(lent)};
    }
  }
}

}  // namespace

double bytes_of(const kernels::KernelIo& io) {
  std::size_t bytes = 0;
  for (const auto* tensors : {&io.inputs, &io.outputs}) {
    for (const kernels::TensorDesc& tensor : *tensors) bytes += tensor.bytes();
  }
  return static_cast<double>(bytes);
}

double moved_bytes(const Launch& launch, bool is_update) {
  const double bytes = bytes_of(launch.io);
  if (!is_update) return bytes;
  kernels::KernelIo also_read{.inputs = launch.io.outputs, .outputs = {}};
  std::erase_if(also_read.inputs, [](const kernels::TensorDesc& tensor) { return is_half(tensor.dtype); });
  return bytes + bytes_of(also_read);
}

std::vector<Launch> prepare_nodes(const model::Graph& graph, const kernels::Device& device) {
  std::vector<Launch> nodes;
  for (const model::Node& node : graph.nodes()) {
    Launch launch{.kernel = nullptr, .io = graph.io(node), .operands = {}};
    launch.kernel = node.op->kernel(device, launch.io);
    nodes.push_back(std::move(launch));
  }
  return nodes;
}

Launches prepare_launches(const model::Graph& graph, const ArenaPlan& arena,
                          const ActivationPlan& activations, std::vector<Launch> nodes,
                          const LaunchOptions& options, const kernels::Device& device) {
  const OperandMap operands(graph, arena, activations, options);
  Launches launches;
  const model::ValueId output = graph.output;
  if (output != model::no_value && graph.value(output).role == model::Role::cache) {
    launches.output = operands.of(output);
  }
  if (graph.final_states != model::no_value) launches.states = operands.of(graph.final_states);
  launches.begin_step = begin_step_launch(options, operands.control(), device);
  launches.end_step = end_step_launch(operands.control(), device);
  launches.nodes = std::move(nodes);
  bind_nodes(launches.nodes, graph, operands, activations);
  const bool updates = options.defers_updates ? begins_step(options.key.role) : ends_step(options.key.role);
  if (!options.key.trains() || !updates) return launches;
  for (const RowsSlice& slice : arena.rows) {
    launches.add_rows.push_back(add_rows_launch(graph, slice, operands, device));
  }
  if (options.clips) launches.clip = clip_launch(arena, options, device);
  for (const Bucket& bucket : arena.buckets) {
    launches.updates.push_back(update_launch(bucket, options, arena, device));
    if (options.average_decay > 0) launches.averages.push_back(average_launch(bucket, options, device));
  }
  return launches;
}

}  // namespace lockstep::runtime
