#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/gpus.h"
#include "kernels/device.h"

namespace lockstep::kernels {

/// A GPU that this process sees, in CUDA's order.
struct CudaDeviceInfo {
  int index = 0;
  std::string problem;  ///< why it cannot be used; what is not known of it then is empty or 0
  std::string name;
  std::string uuid;            ///< "GPU-8a1f0c2d-...", as CUDA_VISIBLE_DEVICES takes it
  std::string bus_id;          ///< "0000:3b:00.0"
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  double memory_bandwidth = 0;  ///< of its memory's clock and bus, in bytes a second
  std::size_t memory_bytes = 0;
  std::optional<std::size_t> free_bytes;
  std::vector<int> peers;  ///< GPUs whose memory it reaches without the host
};

/// GPU `index` of `cuda_devices()`. CUDA is loaded here and not before. UsageError when this build has no
/// CUDA, DeviceError when there is no such GPU or the driver is too old.
std::unique_ptr<Device> make_cuda_device(int index);

/// A GPU that need not be there, for plans alone: nothing can be allocated or launched on it, and no driver
/// is needed. Kernels tell the workspace that they would have there, those of cuBLASLt, which knows no GPU
/// but the current one, the most that it may take. `json`: its properties as cuDNN 9.8 and later describe a
/// GPU. UsageError for another text, and as above.
std::unique_ptr<Device> make_described_cuda_device(const std::string& json);

/// How many GPUs this process sees; 0 without a driver. CUDA is loaded, but no GPU is touched. UsageError
/// when this build has no CUDA.
int visible_cuda_devices();

/// Empty without a GPU or driver; one that cannot be used hides no other. UsageError when this build has no
/// CUDA.
std::vector<CudaDeviceInfo> cuda_devices();

/// Of driver, CUDA and libraries. UsageError as above.
CudaVersions cuda_versions();

bool cuda_is_built_in();

/// For `trainer devices`: "built in", "simulated", or what to do about it. Loads nothing.
std::string_view cuda_in_this_build();

}  // namespace lockstep::kernels
