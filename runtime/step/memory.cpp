#include "runtime/step/memory.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep::runtime {
namespace {

constexpr std::size_t at_least_a_line(std::size_t bytes) {
  return std::max<std::size_t>(bytes, 64);
}

std::size_t gradient_sum_bytes(std::span<const Plan> plans) {
  std::size_t bytes = 0;
  for (const Plan& plan : plans) bytes = std::max(bytes, plan.gradient_sum_bytes());
  return bytes;
}

}  // namespace

ReplicaMemory::ReplicaMemory(kernels::Device& device, comm::Communicator& communicator,
                             std::span<const Plan> plans)
    : element_bytes_(size_of(plans.front().arena.dtype)),
      parameter_bytes_(plans.front().arena.parameter_bytes()),
      copy_dtype_(plans.front().arena.copy_dtype),
      copy_bytes_(plans.front().arena.copy_bytes()),
      gradients_(
          plans.front().key().trains()
              ? communicator.allocate_arena(plans.front().arena.gradient_dtype, plans.front().arena.elements)
              : nullptr),
      gradient_sums_(gradient_sum_bytes(plans) > 0 ? device.allocate(gradient_sum_bytes(plans)) : nullptr),
      control_(communicator.allocate_arena(kernels::ControlBlock::dtype, kernels::ControlBlock::elements)),
      statistics_(plans.front().arena.statistics.empty()
                      ? nullptr
                      : communicator.allocate_arena(DType::f64, plans.front().arena.statistics_elements)),
      rows_(!plans.front().key().trains() || plans.front().arena.rows.empty()
                ? nullptr
                : communicator.allocate_arena(DType::u8, plans.front().arena.rows_bytes)),
      rank_(communicator.world().rank),
      parameters_(device.allocate(at_least_a_line(parameter_bytes_))),
      copies_(copy_bytes_ > 0 ? device.allocate(copy_bytes_) : nullptr),
      averages_(plans.front().request.average_decay > 0 ? device.allocate(at_least_a_line(parameter_bytes_))
                                                        : nullptr),
      buffers_(plans.front().arena.buffers.empty() ? nullptr
                                                   : device.allocate(plans.front().arena.buffer_bytes())),
      step_state_(device.allocate(sizeof(kernels::StepState))),
      kept_state_(device.allocate(sizeof(kernels::StepState))),
      evaluation_control_(device.allocate(sizeof(kernels::ControlBlock))) {
  for (const auto* slices : {&plans.front().arena.slices, &plans.front().arena.frozen}) {
    for (const ArenaSlice& slice : *slices) {
      offsets_.emplace(slice.name, static_cast<std::size_t>(slice.first));
    }
  }
  const std::size_t states =
      plans.front().key().trains() ? model::state_names(plans.front().request.optimizer).size() : 0;
  for (std::size_t i = 0; i < states; ++i) {
    optimizer_states_.push_back(device.allocate(at_least_a_line(plans.front().arena.bytes())));
  }
  const MemoryNeed need = memory_need(plans);
  activations_ = device.allocate(at_least_a_line(need.activations));
  workspace_ = device.allocate(at_least_a_line(need.workspace));
  stored_bytes_ = need.stored;
  if (need.stored > 0) stored_ = device.allocate(need.stored);
  if (need.caches > 0) caches_ = device.allocate(need.caches);
  std::size_t input_bytes = 0;
  std::size_t target_bytes = 0;
  std::size_t states_bytes = 0;
  std::size_t position_bytes = 0;
  std::size_t cache_row_bytes = 0;
  for (const Plan& plan : plans) {
    input_bytes = std::max(input_bytes, plan.bytes_of(model::Role::input));
    target_bytes = std::max(target_bytes, plan.bytes_of(model::Role::target));
    states_bytes = std::max(states_bytes, plan.bytes_of(model::Role::states));
    position_bytes = std::max(position_bytes, plan.bytes_of(model::Role::positions));
    cache_row_bytes = std::max(cache_row_bytes, plan.bytes_of(model::Role::cache_rows));
  }
  for (Slot& slot : slots_) {
    slot = {.input = device.allocate(input_bytes),
            .target = device.allocate(at_least_a_line(target_bytes)),
            .states = states_bytes > 0 ? device.allocate(states_bytes) : nullptr,
            .positions = position_bytes > 0 ? device.allocate(position_bytes) : nullptr,
            .cache_rows = cache_row_bytes > 0 ? device.allocate(cache_row_bytes) : nullptr,
            .host_input = device.allocate_host(sizeof(kernels::StepInput)),
            .host_control = device.allocate_host(sizeof(kernels::ControlBlock))};
  }
}

std::size_t ReplicaMemory::bytes() const {
  std::size_t bytes = 0;
  const auto add = [&](const auto& memory) { bytes += memory != nullptr ? memory->bytes() : 0; };
  for (const auto* arena : {&gradients_, &control_, &statistics_, &rows_}) add(*arena);
  for (const auto* memory :
       {&gradient_sums_, &parameters_, &copies_, &averages_, &buffers_, &activations_, &caches_, &workspace_,
        &stored_, &step_state_, &kept_state_, &evaluation_control_}) {
    add(*memory);
  }
  for (const auto& state : optimizer_states_) add(state);
  for (const Slot& slot : slots_) {
    for (const auto* memory : {&slot.input, &slot.target, &slot.states, &slot.positions, &slot.cache_rows}) {
      add(*memory);
    }
  }
  return bytes;
}

void ReplicaMemory::keep_weights() {
  for (auto* arena : {&gradients_, &statistics_, &rows_}) arena->reset();
  for (auto* memory : {&gradient_sums_, &copies_, &activations_, &caches_, &workspace_, &stored_})
    memory->reset();
  for (Slot& slot : slots_) {
    for (auto* memory : {&slot.input, &slot.target, &slot.states, &slot.positions, &slot.cache_rows})
      memory->reset();
  }
  optimizer_states_.clear();
}

std::vector<comm::ArenaRange> ReplicaMemory::exchanged(const Bucket& bucket) const {
  std::vector<comm::ArenaRange> ranges{
      {.arena = gradients_.get(), .first = bucket.first, .count = bucket.count}};
  if (bucket.with_control) ranges.push_back(comm::all_of(*control_));
  return ranges;
}

void* ReplicaMemory::address(const Operand& operand, std::size_t slot) const {
  const auto first = static_cast<std::size_t>(operand.first);
  switch (operand.region) {
    case Region::input:
      return input(slot);
    case Region::stored:
      return stored_->data();
    case Region::target:
      return target(slot);
    case Region::states:
      return states(slot);
    case Region::positions:
      return positions(slot);
    case Region::cache_rows:
      return cache_rows(slot);
    case Region::step_input:
      return &host_input(slot);
    case Region::step_result:
      return &host_control(slot);
    case Region::activations:
      return at(*activations_, first);
    case Region::workspace:
      return at(*workspace_, first);
    case Region::caches:
      return at(*caches_, first);
    case Region::parameters:
      return at(*parameters_, first * element_bytes_);
    case Region::parameter_copies:
      return at(*copies_, first * size_of(copy_dtype_));
    case Region::averages:
      return at(*averages_, first * element_bytes_);
    case Region::buffers:
      return at(*buffers_, first * sizeof(float));
    case Region::gradients:
      return gradients_->data() + first * size_of(gradients_->dtype());
    case Region::idle_gradients:
      return gradients_->data() + first;
    case Region::gradient_sums:
      return at(*gradient_sums_, first * sizeof(float));
    case Region::statistics:
      return statistics_->data() + first * sizeof(double);
    case Region::rows:
      return rows_->data() + first;
    case Region::own_rows:
      return rows_->data() + first + rank_ * operand.of_each_rank;
    case Region::optimizer_state:
      return at(*optimizer_states_[operand.state], first * element_bytes_);
    case Region::step_state:
      return step_state();
    case Region::kept_state:
      return kept_state();
    case Region::control:
      return control_->data();
    case Region::evaluation_control:
      return evaluation_control_->data();
  }
  throw std::logic_error("an operand in no memory");
}

}  // namespace lockstep::runtime
