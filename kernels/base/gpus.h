#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// What can be told of this machine's GPUs without a CUDA call.
namespace lockstep {

/// Entries of a CUDA_VISIBLE_DEVICES list ("0,2", "GPU-8a1f...", "MIG-5c2b...") up to the first that is no
/// device: CUDA ignores the list from there on.
std::vector<std::string> visible_devices(std::string_view list);

/// Whether an entry is a part of a divided GPU. CUDA shows a process the first of these alone.
bool is_mig(std::string_view entry);

/// How many devices such a list gives to processes that each see what they are given, where /dev has `gpus`
/// whole ones.
int count_visible(std::string_view list, int gpus);

/// GPUs that processes started here may have, counted without a CUDA call: CUDA_VISIBLE_DEVICES if set, else
/// /dev/nvidia0, /dev/nvidia1, ... In a build with the CUDA machine in software: SIMGPU_DEVICES.
int count_devices(const std::filesystem::path& dev = "/dev");

/// Why a GPU of this compute capability (75 for 7.5) cannot be used; empty when it can.
std::string gpu_problem(int compute_capability);

/// Why a driver for CUDA `driver` cannot serve a program built with CUDA `runtime` (both as CUDA counts:
/// 12040); empty when it can. 0: there is no driver.
std::string driver_problem(int driver, int runtime);

/// Versions of CUDA (as it counts: 12040 for 12.4), and of what computes with it.
struct CudaVersions {
  int runtime = 0;
  int driver = 0;              ///< the newest CUDA that it serves; 0: there is none
  std::string driver_release;  ///< "580.95.05"; empty: not known
  std::string gemm_library;    ///< "cuBLASLt 13.1.0"
  std::string dnn_library;     ///< "cuDNN 9.19.0"

  std::string problem() const { return driver_problem(driver, runtime); }
};

/// One line.
std::string to_text(const CudaVersions& versions);

/// "12.4" for 12040.
std::string cuda_version_text(int version);

/// The driver's release ("580.95.05") in the text of /proc/driver/nvidia/version; empty when there is none.
std::string driver_release(std::string_view text);

}  // namespace lockstep
