#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/memory.h"

namespace lockstep::runtime {

/// Tensors as files have them: PyTorch's names, shapes and row-major layout.
struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

/// The parameters (or, alike, the gradients) of a replica on their way in and out of files.
class ParameterAccess {
 public:
  ParameterAccess(kernels::Device& device, const Plan& plan, ReplicaMemory& memory)
      : device_(device), plan_(plan), memory_(memory) {}

  /// PyTorch's default initialisation from our own streams: number i of parameter p is the same for every
  /// world size, backend and layout.
  void initialise(std::uint64_t seed);

  /// All parameters must be in the file with their shapes, and nothing else (load_state_dict's strict=True).
  /// DataError names the file and the tensor.
  void load(const std::filesystem::path& file);

  std::vector<NamedTensor> parameters() const;
  std::vector<NamedTensor> gradients() const;

 private:
  void write(const model::Parameter& parameter, const std::vector<float>& values);
  std::vector<NamedTensor> read(bool gradients) const;

  kernels::Device& device_;
  const Plan& plan_;
  ReplicaMemory& memory_;
};

void save_tensors(const std::filesystem::path& file, const std::vector<NamedTensor>& tensors);

/// SHA-256 of the tensors' bytes in order: equal on all ranks, or a replica has drifted.
std::string sha256_of(const std::vector<NamedTensor>& tensors);

}  // namespace lockstep::runtime
