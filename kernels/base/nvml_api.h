#pragma once

/// The part of NVML (libnvidia-ml.so.1, which comes with NVIDIA's driver) that Lockstep uses, as its
/// reference has it: https://docs.nvidia.com/deploy/nvml-api. Of ours, since builds have no nvml.h; the
/// library is loaded at run time.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the names are NVML's.

using nvmlReturn_t = int;  ///< an enum there; 0: NVML_SUCCESS
using nvmlDevice_t = struct nvmlDevice_st*;

inline constexpr nvmlReturn_t NVML_SUCCESS = 0;
inline constexpr nvmlReturn_t NVML_ERROR_NOT_SUPPORTED = 3;
inline constexpr nvmlReturn_t NVML_ERROR_NOT_FOUND = 6;
inline constexpr int NVML_TEMPERATURE_GPU = 0;
inline constexpr int NVML_CLOCK_SM = 1;
inline constexpr int NVML_CLOCK_MEM = 2;

struct nvmlUtilization_t {
  unsigned int gpu;     ///< percent of the last period in which a kernel ran
  unsigned int memory;  ///< percent of it in which memory was read or written
};

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

nvmlReturn_t nvmlInit_v2();
nvmlReturn_t nvmlShutdown();
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int* celsius);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned int* megahertz);
/// Called nvmlDeviceGetCurrentClocksThrottleReasons before driver 535, and under both names since.
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons);

// NOLINTEND(readability-identifier-naming)
}
