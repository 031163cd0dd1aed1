#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::runtime {

/// What the maker specifies, per second: bytes, and floating-point operations of dense products whose sums
/// are f32.
struct GpuFigures {
  double memory = 0;
  double f32 = 0;   ///< units that are no tensor cores
  double tf32 = 0;  ///< tensor cores, as are `half`
  double half = 0;
  double nvlink = 0;           ///< in each direction; 0: it has none
  double pcie = 0;             ///< in each direction
  double multiprocessors = 0;  ///< of which the rates above are those of all
  std::string source;
};

/// A GPU that need not be there.
struct GpuProfile {
  std::string name;         ///< "h100", or a file
  std::string device_name;  ///< "NVIDIA H100 80GB HBM3"
  std::string description;  ///< for `kernels::make_described_cuda_device`
  std::size_t memory_bytes = 0;
  GpuFigures figures;
};

/// Those of gpus/: name and text.
const std::vector<std::pair<std::string, std::string_view>>& gpu_texts();
std::vector<std::string> gpu_names();

/// One of those, or a JSON file of the same form: the members in which cuDNN describes a GPU and "figures",
/// which may be left out where "deviceName" is that of a known GPU. UsageError with the nearest names for
/// another name, DataError naming the file and what is wrong with it.
GpuProfile find_gpu(const std::string& name_or_file);

/// The same of a text; JsonError.
GpuProfile read_gpu(const std::string& name, std::string_view text);

}  // namespace lockstep::runtime
