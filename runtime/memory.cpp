#include "runtime/memory.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep::runtime {
namespace {

constexpr std::size_t at_least_a_line(std::size_t bytes) {
  return std::max<std::size_t>(bytes, 64);
}

}  // namespace

ReplicaMemory::ReplicaMemory(kernels::Device& device, comm::Communicator& communicator,
                             std::span<const Plan> plans, const model::OptimizerOptions& optimizer)
    : parameter_bytes_(plans.front().arena.parameter_bytes),
      gradients_(communicator.allocate_arena(DType::f32,
                                             static_cast<std::int64_t>(parameter_bytes_ / sizeof(float)))),
      control_(communicator.allocate_arena(DType::f32, sizeof(kernels::ControlBlock) / sizeof(float))),
      parameters_(device.allocate(at_least_a_line(parameter_bytes_))),
      step_state_(device.allocate(sizeof(kernels::StepState))),
      evaluation_control_(device.allocate(sizeof(kernels::ControlBlock))) {
  for (const ArenaSlice& slice : plans.front().arena.slices) offsets_.emplace(slice.name, slice.offset);
  for (std::size_t i = 0; i < model::state_names(optimizer).size(); ++i) {
    optimizer_states_.push_back(device.allocate(at_least_a_line(parameter_bytes_)));
  }
  const MemoryNeed need = memory_need(plans, optimizer);
  activations_ = device.allocate(at_least_a_line(need.activations));
  workspace_ = device.allocate(at_least_a_line(need.workspace));
  std::size_t input_bytes = 0;
  std::size_t target_bytes = 0;
  for (const Plan& plan : plans) {
    input_bytes = std::max(input_bytes, plan.input_bytes());
    target_bytes = std::max(target_bytes, plan.target_bytes());
  }
  for (Slot& slot : slots_) {
    slot = {.input = device.allocate(input_bytes), .target = device.allocate(target_bytes)};
  }
}

std::size_t ReplicaMemory::bytes() const {
  std::size_t bytes = gradients_->bytes() + control_->bytes();
  for (const auto* memory : {&parameters_, &activations_, &workspace_, &step_state_, &evaluation_control_}) {
    bytes += (*memory)->bytes();
  }
  for (const auto& state : optimizer_states_) bytes += state->bytes();
  for (const Slot& slot : slots_) bytes += slot.input->bytes() + slot.target->bytes();
  return bytes;
}

void* ReplicaMemory::address(const Plan& plan, model::ValueId id, std::size_t slot) const {
  const model::ValueId root = plan.activations.storage[static_cast<std::size_t>(id)];
  const model::Value& value = plan.graph.value(root);
  switch (value.role) {
    case model::Role::input:
      return input(slot);
    case model::Role::target:
      return target(slot);
    case model::Role::step_state:
      return step_state();
    case model::Role::control:
      return plan.request.mode == Mode::train ? training_control() : evaluation_control();
    case model::Role::parameter:
      return parameter(value.name);
    case model::Role::gradient: {
      const auto& parameters = plan.graph.parameters();
      const auto owner = std::ranges::find(parameters, root, &model::Parameter::gradient);
      return gradient(plan.graph.value(owner->value).name);
    }
    case model::Role::activation:
      return at(*activations_, plan.activations.offsets[static_cast<std::size_t>(root)]);
  }
  throw std::logic_error("a value without a role");
}

kernels::ControlBlock* ReplicaMemory::training_control() const {
  return reinterpret_cast<kernels::ControlBlock*>(control_->data());
}

kernels::ControlBlock* ReplicaMemory::evaluation_control() const {
  return static_cast<kernels::ControlBlock*>(evaluation_control_->data());
}

}  // namespace lockstep::runtime
