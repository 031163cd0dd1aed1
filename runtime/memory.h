#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "kernels/device.h"
#include "kernels/step_state.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// All memory of one replica, allocated once: the flat arenas of parameters, gradients (the communicator's)
/// and optimizer state, the activation arena and workspace that all plans share, and the batch slots.
class ReplicaMemory {
 public:
  /// The first plan is the training plan that laid out the arenas. Collective.
  ReplicaMemory(kernels::Device& device, comm::Communicator& communicator, std::span<const Plan> plans,
                const model::OptimizerOptions& optimizer);

  /// Where a value of `plan` lives when the plan runs on batch slot `slot`.
  void* address(const Plan& plan, model::ValueId id, std::size_t slot) const;

  void* parameter(const std::string& name) const { return at(*parameters_, offsets_.at(name)); }
  void* gradient(const std::string& name) const { return gradients() + offsets_.at(name); }

  std::byte* parameters() const { return static_cast<std::byte*>(parameters_->data()); }
  std::byte* gradients() const { return gradients_->data(); }
  /// As arenas, for collectives.
  const comm::Arena& gradient_arena() const { return *gradients_; }
  const comm::Arena& control_arena() const { return *control_; }
  std::byte* optimizer_state(std::size_t index) const {
    return static_cast<std::byte*>(optimizer_states_[index]->data());
  }
  void* optimizer_state(std::size_t index, const std::string& name) const {
    return at(*optimizer_states_[index], offsets_.at(name));
  }
  std::size_t parameter_bytes() const { return parameter_bytes_; }
  /// All that it holds of its device, the communicator's arenas included.
  std::size_t bytes() const;
  void* input(std::size_t slot) const { return slots_[slot].input->data(); }
  void* target(std::size_t slot) const { return slots_[slot].target->data(); }
  void* workspace() const { return workspace_->data(); }
  kernels::StepState* step_state() const { return static_cast<kernels::StepState*>(step_state_->data()); }
  /// Of training: summed with the last bucket.
  kernels::ControlBlock* training_control() const;
  kernels::ControlBlock* evaluation_control() const;

 private:
  struct Slot {
    std::unique_ptr<kernels::Memory> input;
    std::unique_ptr<kernels::Memory> target;
  };
  static void* at(const kernels::Memory& memory, std::size_t offset) {
    return static_cast<std::byte*>(memory.data()) + offset;
  }

  std::map<std::string, std::size_t> offsets_;  ///< of parameters, in every flat arena
  std::size_t parameter_bytes_;
  std::unique_ptr<comm::Arena> gradients_;
  std::unique_ptr<comm::Arena> control_;
  std::unique_ptr<kernels::Memory> parameters_;
  std::vector<std::unique_ptr<kernels::Memory>> optimizer_states_;
  std::unique_ptr<kernels::Memory> activations_;
  std::unique_ptr<kernels::Memory> workspace_;
  std::unique_ptr<kernels::Memory> step_state_;
  std::unique_ptr<kernels::Memory> evaluation_control_;
  std::array<Slot, batch_slot_count> slots_;
};

}  // namespace lockstep::runtime
