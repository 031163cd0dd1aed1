#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

/// Tensors as files have them: PyTorch's names, shapes and row-major layout.
struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

/// Bytes of the staged copy for a checkpoint: a plan's parameters, buffers and optimizer state as in files.
std::size_t staged_bytes(const Plan& plan, const model::OptimizerOptions& optimizer);

/// Moves a replica's parameters, gradients and optimizer state between its arenas and files.
class ParameterIO {
 public:
  ParameterIO(kernels::Device& device, const Plan& plan, ReplicaMemory& memory)
      : device_(device), plan_(plan), memory_(memory) {}

  /// PyTorch's default initialisation from our own streams: number i of parameter p is the same for every
  /// world size, backend and layout.
  void initialise(std::uint64_t seed);

  /// All parameters and buffers must be in the file with their shapes, and nothing else (load_state_dict's
  /// strict=True). DataError names the file and the tensor.
  void load(const std::filesystem::path& file);
  /// The same for the optimizer's state: "fc1.weight.exp_avg" and so on, PyTorch's names and layout.
  void load_optimizer_state(const std::filesystem::path& file, const model::OptimizerOptions& optimizer);

  /// How many updates the optimizer has applied, which the device counts: a part of its state.
  std::int64_t applied_updates() const;
  void set_applied_updates(std::int64_t count);

  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> gradients() const;
  std::vector<NamedTensor> optimizer_state(const model::OptimizerOptions& optimizer) const;

  /// As the functions without `into`, in the memory that an earlier call filled.
  void parameters(std::vector<NamedTensor>& into) const;
  void optimizer_state(const model::OptimizerOptions& optimizer, std::vector<NamedTensor>& into) const;

  /// SHA-256 of the parameter arena: equal on ranks with equal plans and weights.
  std::string fingerprint() const;

 private:
  /// A part of one of the arenas, by its name in files.
  struct ParameterSlot {
    std::string name;
    model::ValueId value;
    Shape file_shape;
    void* data;
  };

  std::vector<ParameterSlot> parameter_slots() const;
  std::vector<ParameterSlot> buffer_slots() const;
  /// The tensors of a file of weights: PyTorch's state_dict.
  std::vector<ParameterSlot> weight_slots() const;
  std::vector<ParameterSlot> optimizer_slots(const model::OptimizerOptions& optimizer) const;
  void load(const std::filesystem::path& file, const std::vector<ParameterSlot>& slots);
  void write(const ParameterSlot& slot, std::span<const float> values);
  void read(const std::vector<ParameterSlot>& slots, std::vector<NamedTensor>& into) const;

  kernels::Device& device_;
  const Plan& plan_;
  ReplicaMemory& memory_;
};

void save_tensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors);

/// The name of the first tensor with an infinity or a NaN; empty if there is none.
std::string first_not_finite(std::span<const NamedTensor> tensors);

/// SHA-256 of the tensors' bytes in order: equal on all ranks, or a replica has diverged.
std::string sha256_of(const std::vector<NamedTensor>& tensors);

}  // namespace lockstep::runtime
