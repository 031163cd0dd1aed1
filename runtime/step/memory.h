#pragma once

#include <array>
#include <cstddef>
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

/// All memory of one replica, allocated once: the flat arenas of parameters, gradients and control block (the
/// communicator's) and optimizer state, the activation arena and workspace that all plans share, and the
/// batch slots. A slot holds a batch on the device and, on the host, its step's input and control block.
class ReplicaMemory {
 public:
  /// The first plan is the one that laid out the arenas. Without training plans there is no memory for
  /// gradients and optimizer state. Collective.
  ReplicaMemory(kernels::Device& device, comm::Communicator& communicator, std::span<const Plan> plans);

  /// Address of an operand when its plan runs on batch slot `slot`.
  void* address(const Operand& operand, std::size_t slot) const;

  void* parameter(const std::string& name) const { return parameters().data() + offset_of(name); }
  /// Null if weights are not averaged.
  void* average(const std::string& name) const {
    return averages_ == nullptr ? nullptr : at(*averages_, offset_of(name));
  }
  void* gradient(const std::string& name) const {
    return gradients_->data() + offsets_.at(name) * size_of(gradients_->dtype());
  }
  void* buffer(const BufferSlice& slice) const {
    return at(*buffers_, static_cast<std::size_t>(slice.first) * sizeof(float));
  }
  /// Of a plan that does not shard updates.
  void* optimizer_state(std::size_t index, const std::string& name) const {
    return at(*optimizer_states_[index], offset_of(name));
  }
  /// The whole arena.
  std::span<std::byte> parameters() const {
    if (shared_parameters_ != nullptr) return {shared_parameters_->data(), parameter_bytes_};
    return {static_cast<std::byte*>(parameters_->data()), parameter_bytes_};
  }
  /// All of their copies in the type that layers compute in; empty without.
  std::span<std::byte> parameter_copies() const {
    if (shared_copies_ != nullptr) return {shared_copies_->data(), copy_bytes_};
    if (copies_ == nullptr) return {};
    return {static_cast<std::byte*>(copies_->data()), copy_bytes_};
  }
  /// The same of their averages; empty without.
  std::span<std::byte> averages() const {
    if (averages_ == nullptr) return {};
    return {static_cast<std::byte*>(averages_->data()), parameter_bytes_};
  }
  /// Of the activations, which nothing reads between two steps: holds any parameter on its way between its
  /// arena and files (`conversion_bytes`). Empty behind `keep_weights`.
  std::span<std::byte> idle_between_steps() const {
    if (activations_ == nullptr) return {};
    return {static_cast<std::byte*>(activations_->data()), activations_->bytes()};
  }
  /// The ranges that one exchange of that bucket sums: gradients, and with the last bucket the control block.
  std::vector<comm::ArenaRange> exchanged(const Bucket& bucket) const;
  /// The same that are gathered from the ranks that update a shard each: parameters, and their copies.
  std::vector<comm::ArenaRange> gathered(const Bucket& bucket) const;
  std::vector<comm::ArenaRange> exchanged(const StatisticsSlice& slice) const {
    return {{.arena = statistics_.get(), .first = slice.first, .count = slice.count}};
  }

  /// The lists of all ranks, of which this rank writes its own.
  comm::ArenaRange exchanged(const RowsSlice& slice) const {
    return {.arena = rows_.get(), .first = slice.first, .count = slice.bytes()};
  }

  void* input(std::size_t slot) const { return slots_[slot].input->data(); }
  /// Samples that the device keeps; empty without.
  std::span<std::byte> stored() const {
    if (stored_ == nullptr) return {};
    return {static_cast<std::byte*>(stored_->data()), stored_bytes_};
  }
  void* target(std::size_t slot) const { return slots_[slot].target->data(); }
  void* states(std::size_t slot) const { return slots_[slot].states->data(); }
  /// Of new tokens, (N, T) i64.
  void* positions(std::size_t slot) const { return slots_[slot].positions->data(); }
  void* cache_rows(std::size_t slot) const { return slots_[slot].cache_rows->data(); }
  kernels::StepState* step_state() const { return static_cast<kernels::StepState*>(step_state_->data()); }
  /// What updates read that are left to the next step.
  void* kept_state() const { return kept_state_->data(); }

  /// On the host: the input of the next step on that slot, and the control block of the last step on it.
  kernels::StepInput& host_input(std::size_t slot) const {
    return *static_cast<kernels::StepInput*>(slots_[slot].host_input->data());
  }
  kernels::ControlBlock& host_control(std::size_t slot) const {
    return *static_cast<kernels::ControlBlock*>(slots_[slot].host_control->data());
  }

  /// Of a plan that shards updates, between two steps, on the host: puts the optimizer's state `index` of all
  /// ranks in the place of the gradients, which are idle then (collective), or keeps what lies there, of this
  /// rank's shards.
  void gather_optimizer_state(std::size_t index, std::span<const Bucket> buckets,
                              comm::Communicator& communicator, kernels::Stream& stream);
  void keep_optimizer_state(std::size_t index, std::span<const Bucket> buckets);

  /// Bytes of device memory, the communicator's arenas included.
  std::size_t bytes() const;

  /// Frees what only plans use, the batches of the slots too: all but parameters, their averages, buffers,
  /// and a step's state and control blocks. Nothing may run any more, here or on a peer that exchanges with
  /// this rank.
  void keep_weights();

 private:
  /// Of the value that the operand is or is a part of.
  void* start_of(const Operand& operand, std::size_t slot) const;

  struct Slot {
    std::unique_ptr<kernels::Memory> input;
    std::unique_ptr<kernels::Memory> target;
    std::unique_ptr<kernels::Memory> states;      ///< null: samples bring none
    std::unique_ptr<kernels::Memory> positions;   ///< null: no plan extends sequences
    std::unique_ptr<kernels::Memory> cache_rows;  ///< null: their rows share nothing
    std::unique_ptr<kernels::Memory> host_input;
    std::unique_ptr<kernels::Memory> host_control;
  };
  static void* at(const kernels::Memory& memory, std::size_t offset) {
    return static_cast<std::byte*>(memory.data()) + offset;
  }
  /// `arena` and `request` are the first plan's.
  ReplicaMemory(kernels::Device& device, comm::Communicator& communicator, std::span<const Plan> plans,
                const ArenaPlan& arena, const PlanRequest& request);
  /// The gradients of what this rank updates.
  comm::ArenaRange updated_gradients(const Bucket& bucket) const;
  void* own_state(std::size_t index, const Bucket& bucket) const {
    return at(*optimizer_states_[index], static_cast<std::size_t>(bucket.states_first) * element_bytes_);
  }
  std::size_t offset_of(const std::string& name) const { return offsets_.at(name) * element_bytes_; }

  std::map<std::string, std::size_t> offsets_;  ///< of parameters in every flat arena, in elements
  std::size_t element_bytes_;
  std::size_t parameter_bytes_;
  DType copy_dtype_;
  std::size_t copy_bytes_;
  std::unique_ptr<comm::Arena> gradients_;          ///< null: nothing trains
  std::unique_ptr<kernels::Memory> gradient_sums_;  ///< null: gradients add up where they are exchanged
  std::unique_ptr<comm::Arena> control_;
  std::unique_ptr<comm::Arena> statistics_;  ///< null: none are of all ranks
  std::unique_ptr<comm::Arena> rows_;        ///< null: all gradients are exchanged as they are
  std::int64_t rank_;
  int ranks_;
  std::unique_ptr<comm::Arena> shared_parameters_;  ///< null: no rank takes them from another
  std::unique_ptr<comm::Arena> shared_copies_;      ///< the same
  std::unique_ptr<kernels::Memory> parameters_;     ///< null: they are the shared ones
  std::unique_ptr<kernels::Memory> copies_;         ///< the same; or all layers compute in f32
  std::unique_ptr<kernels::Memory> averages_;       ///< null: weights are not averaged
  std::unique_ptr<kernels::Memory> buffers_;        ///< null: the model has none
  std::vector<std::unique_ptr<kernels::Memory>> optimizer_states_;
  std::unique_ptr<kernels::Memory> activations_;
  std::unique_ptr<kernels::Memory> caches_;  ///< null: no plan extends sequences or returns states
  std::unique_ptr<kernels::Memory> workspace_;
  std::unique_ptr<kernels::Memory> stored_;  ///< null: batches bring all of their samples
  std::size_t stored_bytes_ = 0;
  std::unique_ptr<kernels::Memory> step_state_;
  std::unique_ptr<kernels::Memory> kept_state_;
  std::unique_ptr<kernels::Memory> evaluation_control_;
  std::array<Slot, batch_slot_count> slots_;
};

}  // namespace lockstep::runtime
