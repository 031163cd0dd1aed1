// An NVML of before driver 535 for a machine with GPUs at 0000:01:00.0 and 0000:02:00.0, of which the second
// has no sensor of power and its clocks not kept down.
#include <string>

#include "kernels/base/nvml_api.h"

struct nvmlDevice_st {
  unsigned int number;
};

namespace {

nvmlDevice_st devices[] = {{1}, {2}};

}  // namespace

nvmlReturn_t nvmlInit_v2() {
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown() {
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  for (nvmlDevice_st& known : devices) {
    if (bus_id != "0000:0" + std::to_string(known.number) + ":00.0") continue;
    *device = &known;
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  *utilization = {.gpu = 40 + device->number, .memory = 7};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const unsigned long long used = device->number << 30;
  *memory = {.total = 80ULL << 30, .free = (80ULL << 30) - used, .used = used};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  if (device->number == 2) return NVML_ERROR_NOT_SUPPORTED;
  *milliwatts = 312'500;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int* celsius) {
  if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_NOT_SUPPORTED;
  *celsius = 60 + device->number;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned int* megahertz) {
  *megahertz = (clock == NVML_CLOCK_SM ? 1400 : 2600) + device->number;
  return clock == NVML_CLOCK_SM || clock == NVML_CLOCK_MEM ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  *reasons = device->number == 1 ? 0x44 : 0;
  return NVML_SUCCESS;
}
