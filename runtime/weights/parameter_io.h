#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "runtime/step/memory.h"
#include "runtime/weights/named_tensor.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// What torch.amp.GradScaler keeps; the device counts it. A scale of 0: not begun.
struct GradScalerState {
  float scale = 0;
  std::int32_t growth_tracker = 0;
};

/// Moves a replica's parameters, gradients and optimizer state between its arenas and files. What sets
/// parameters makes their copies (mixed precision) anew. Where weights
/// are averaged, files of weights have the averages, and the optimizer's state has the weights that are
/// trained: "fc1.weight.raw".
class ParameterIO {
 public:
  ParameterIO(kernels::Device& device, const Plan& plan, ReplicaMemory& memory)
      : device_(device), plan_(plan), memory_(memory) {}

  /// PyTorch's default initialisation from our own streams: number i of parameter p is the same for every
  /// world size, backend and layout.
  void initialise(std::uint64_t seed);

  /// All parameters and buffers but those named in `without` must be in the file with their shapes, and
  /// nothing else (load_state_dict's strict=True); floats of another type are converted. DataError names the
  /// file, the tensor, and the nearest names.
  void load(const WeightsFile& file, std::span<const std::string> without = {});
  /// The same for the optimizer's state: "fc1.weight.exp_avg" and so on, PyTorch's names and layout.
  void load_optimizer_state(const std::filesystem::path& file);

  /// How many updates the optimizer has applied, which the device counts: a part of its state.
  std::int64_t applied_updates() const;
  GradScalerState grad_scaler() const;
  void set_applied_updates(std::int64_t count, GradScalerState grad_scaler = {});

  /// Gives all ranks the buffers of rank 0, as PyTorch's DDP does: each rank's running statistics are of its
  /// own samples. Collective, between two steps.
  void broadcast_buffers(comm::Communicator& communicator);

  /// Name and shape of each tensor in a file of weights.
  std::vector<std::pair<std::string, Shape>> weight_shapes() const;
  /// With the buffers.
  std::vector<NamedTensor> parameters() const;
  /// As the arena holds them: in fp16 times GradScaler's scale.
  std::vector<NamedTensor> gradients() const;

  /// As the functions without `into`, in the memory that an earlier call filled.
  void parameters(std::vector<NamedTensor>& into) const;
  /// As these, one tensor at a time, as long as this lives; of the optimizer's state where each rank has all
  /// (`has_whole_state`).
  TensorSource weights() const { return source(weight_slots()); }
  TensorSource optimizer_state() const { return source(optimizer_slots()); }
  bool has_whole_state() const { return !shards_updates(plan_.arena); }
  /// Collective, between two steps: ranks that update a shard each gather their states, also for ranks that
  /// read none (null).
  void optimizer_state(comm::Communicator& communicator, std::vector<NamedTensor>* into) const;

  /// SHA-256 of the parameter arena and the averages: equal on ranks with equal plans and weights.
  std::string fingerprint() const;

 private:
  /// A part of one of the arenas, by its name in files.
  struct ParameterSlot {
    std::string name;
    model::ValueId value;
    Shape file_shape;
    void* data;
    void* copy = nullptr;          ///< is written alike
    bool file_transposed = false;  ///< see model::Parameter
    /// `data` is that of the gradients, where this state of the optimizer lies on its way.
    std::optional<std::size_t> gathered_state{};
  };

  kernels::StepState step_state() const;
  std::vector<ParameterSlot> parameter_slots() const;
  std::vector<ParameterSlot> buffer_slots() const;
  /// Of the averages where there are some, which with the parameters are written alike.
  std::vector<ParameterSlot> averaged_slots() const;
  /// The tensors of a file of weights: PyTorch's state_dict.
  std::vector<ParameterSlot> weight_slots() const;
  std::vector<ParameterSlot> optimizer_slots() const;
  void load(const WeightsFile& file, const std::vector<ParameterSlot>& slots,
            std::span<const std::string> without = {});
  const model::ValueType& type_of(const ParameterSlot& slot) const;
  void copy_parameters();
  void write(const ParameterSlot& slot, std::span<const float> values);
  /// Of a tensor of a file all but the values.
  NamedTensor described(const ParameterSlot& slot) const;
  TensorSource source(std::vector<ParameterSlot> slots) const;
  void read(const std::vector<ParameterSlot>& slots, std::vector<NamedTensor>& into) const;
  void read(const ParameterSlot& slot, NamedTensor& into, kernels::Stream& stream) const;

  kernels::Device& device_;
  const Plan& plan_;
  ReplicaMemory& memory_;
};

}  // namespace lockstep::runtime
