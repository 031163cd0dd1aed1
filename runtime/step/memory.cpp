#include "runtime/step/memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/base/alignment.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t at_least_a_line(std::size_t bytes) {
  return std::max(bytes, cache_line);
}

std::unique_ptr<kernels::Memory> allocate_if_any(kernels::Device& device, std::size_t bytes) {
  return bytes > 0 ? device.allocate(bytes) : nullptr;
}

/// The most that one of the plans has in values of this role.
std::size_t most_bytes_of(model::Role role, std::span<const Plan> plans) {
  std::size_t bytes = 0;
  for (const Plan& plan : plans) bytes = std::max(bytes, plan.bytes_of(role));
  return bytes;
}

}  // namespace

ReplicaMemory::ReplicaMemory(kernels::Device& device, comm::Communicator& communicator,
                             std::span<const Plan> plans)
    : ReplicaMemory(device, communicator, plans, plans.front().arena, plans.front().request) {}

ReplicaMemory::ReplicaMemory(kernels::Device& device, comm::Communicator& communicator,
                             std::span<const Plan> plans, const ArenaPlan& arena, const PlanRequest& request)
    : element_bytes_(size_of(arena.dtype)),
      parameter_bytes_(arena.parameter_bytes()),
      copy_dtype_(arena.copy_dtype),
      copy_bytes_(arena.copy_bytes()),
      gradients_(request.key.trains() ? communicator.allocate_arena(arena.gradient_dtype, arena.elements)
                                      : nullptr),
      gradient_sums_(allocate_if_any(device, gradient_sum_bytes(plans))),
      control_(communicator.allocate_arena(kernels::ControlBlock::dtype, kernels::ControlBlock::elements)),
      statistics_(arena.statistics.empty()
                      ? nullptr
                      : communicator.allocate_arena(DType::f64, arena.statistics_elements)),
      rows_(!request.key.trains() || arena.rows.empty()
                ? nullptr
                : communicator.allocate_arena(DType::u8, arena.rows_bytes)),
      rank_(communicator.world().rank),
      ranks_(communicator.world().size),
      shared_parameters_(shards_updates(arena) ? communicator.allocate_arena(
                                                     arena.dtype, arena.elements + arena.frozen_elements)
                                               : nullptr),
      shared_copies_(
          shared_parameters_ != nullptr && copy_bytes_ > 0
              ? communicator.allocate_arena(arena.copy_dtype, arena.elements + arena.frozen_elements)
              : nullptr),
      parameters_(shared_parameters_ == nullptr ? device.allocate(at_least_a_line(parameter_bytes_))
                                                : nullptr),
      copies_(shared_copies_ == nullptr ? allocate_if_any(device, copy_bytes_) : nullptr),
      averages_(request.average_decay > 0 ? device.allocate(at_least_a_line(parameter_bytes_)) : nullptr),
      buffers_(arena.buffers.empty() ? nullptr : device.allocate(arena.buffer_bytes())),
      step_state_(device.allocate(sizeof(kernels::StepState))),
      kept_state_(device.allocate(sizeof(kernels::StepState))),
      evaluation_control_(device.allocate(sizeof(kernels::ControlBlock))) {
  for (const auto* slices : {&arena.slices, &arena.frozen}) {
    for (const ArenaSlice& slice : *slices) {
      offsets_.emplace(slice.name, static_cast<std::size_t>(slice.first));
    }
  }
  const std::size_t state_bytes = static_cast<std::size_t>(updated_elements(arena)) * element_bytes_;
  const std::size_t states = request.key.trains() ? model::state_names(request.optimizer).size() : 0;
  for (std::size_t i = 0; i < states; ++i) {
    optimizer_states_.push_back(device.allocate(at_least_a_line(state_bytes)));
  }
  const MemoryNeed need = memory_need(plans);
  activations_ = device.allocate(at_least_a_line(need.activations));
  workspace_ = device.allocate(at_least_a_line(need.workspace));
  stored_bytes_ = need.stored;
  stored_ = allocate_if_any(device, need.stored);
  caches_ = allocate_if_any(device, need.caches);
  using model::Role;
  for (Slot& slot : slots_) {
    slot = {.input = device.allocate(most_bytes_of(Role::input, plans)),
            .target = device.allocate(at_least_a_line(most_bytes_of(Role::target, plans))),
            .states = allocate_if_any(device, most_bytes_of(Role::states, plans)),
            .positions = allocate_if_any(device, most_bytes_of(Role::positions, plans)),
            .cache_rows = allocate_if_any(device, most_bytes_of(Role::cache_rows, plans)),
            .host_input = device.allocate_host(sizeof(kernels::StepInput)),
            .host_control = device.allocate_host(sizeof(kernels::ControlBlock))};
  }
}

std::size_t ReplicaMemory::bytes() const {
  std::size_t bytes = 0;
  const auto add = [&](const auto& memory) { bytes += memory != nullptr ? memory->bytes() : 0; };
  for (const auto* arena :
       {&gradients_, &control_, &statistics_, &rows_, &shared_parameters_, &shared_copies_}) {
    add(*arena);
  }
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
  for (auto* arena : {&gradients_, &statistics_, &rows_, &shared_copies_}) arena->reset();
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

std::vector<comm::ArenaRange> ReplicaMemory::gathered(const Bucket& bucket) const {
  std::vector<comm::ArenaRange> ranges{
      {.arena = shared_parameters_.get(), .first = bucket.first, .count = bucket.count}};
  if (bucket.has_copies)
    ranges.push_back({.arena = shared_copies_.get(), .first = bucket.first, .count = bucket.count});
  return ranges;
}

comm::ArenaRange ReplicaMemory::updated_gradients(const Bucket& bucket) const {
  const comm::ArenaRange whole = exchanged(bucket).front();
  return bucket.shards_update ? comm::shard_of(whole, static_cast<int>(rank_), ranks_) : whole;
}

void ReplicaMemory::gather_optimizer_state(std::size_t index, std::span<const Bucket> buckets,
                                           comm::Communicator& communicator, kernels::Stream& stream) {
  for (const Bucket& bucket : buckets) {
    const comm::ArenaRange own = updated_gradients(bucket);
    std::memcpy(own.data(), own_state(index, bucket), own.bytes());
    if (bucket.shards_update)
      communicator.all_gather(exchanged(bucket).front(), {.what = "optimizer state"}, stream);
  }
}

void ReplicaMemory::keep_optimizer_state(std::size_t index, std::span<const Bucket> buckets) {
  for (const Bucket& bucket : buckets) {
    const comm::ArenaRange own = updated_gradients(bucket);
    std::memcpy(own_state(index, bucket), own.data(), own.bytes());
  }
}

void* ReplicaMemory::address(const Operand& operand, std::size_t slot) const {
  return static_cast<std::byte*>(start_of(operand, slot)) + operand.view_offset +
         rank_ * operand.of_each_rank;
}

void* ReplicaMemory::start_of(const Operand& operand, std::size_t slot) const {
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
      return parameters().data() + first * element_bytes_;
    case Region::parameter_copies:
      return parameter_copies().data() + first * size_of(copy_dtype_);
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
    case Region::own_rows:
      return rows_->data() + first;
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
