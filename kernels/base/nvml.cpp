#include "kernels/base/nvml.h"

#include <dlfcn.h>

#include <array>
#include <string_view>
#include <utility>

#include "kernels/base/nvml_api.h"

namespace lockstep {
namespace {

/// Bits of nvmlDeviceGetCurrentClocksThrottleReasons.
constexpr std::array<std::pair<unsigned long long, std::string_view>, 9> reason_names{{
    {0x1, "gpu_idle"},
    {0x2, "applications_clocks_setting"},
    {0x4, "sw_power_cap"},
    {0x8, "hw_slowdown"},
    {0x10, "sync_boost"},
    {0x20, "sw_thermal_slowdown"},
    {0x40, "hw_thermal_slowdown"},
    {0x80, "hw_power_brake_slowdown"},
    {0x100, "display_clock_setting"},
}};

std::vector<std::string> names_of(unsigned long long reasons) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : reason_names) {
    if ((reasons & bit) != 0) names.emplace_back(name);
  }
  return names;
}

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

/// What `get` writes; nothing where the library has no such function, or the GPU no such sensor.
template <class Value, class... Parameters, class... Arguments>
std::optional<Value> value_of(nvmlReturn_t (*get)(Parameters...), Arguments... arguments) {
  Value value{};
  if (get == nullptr || get(arguments..., &value) != NVML_SUCCESS) return std::nullopt;
  return value;
}

std::optional<int> as_int(std::optional<unsigned int> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

struct Nvml::Functions {
  decltype(&nvmlInit_v2) init;
  decltype(&nvmlShutdown) shutdown;
  decltype(&nvmlDeviceGetHandleByPciBusId_v2) device;
  decltype(&nvmlDeviceGetUtilizationRates) utilization;
  decltype(&nvmlDeviceGetMemoryInfo) memory;
  decltype(&nvmlDeviceGetPowerUsage) power;
  decltype(&nvmlDeviceGetTemperature) temperature;
  decltype(&nvmlDeviceGetClockInfo) clock;
  decltype(&nvmlDeviceGetCurrentClocksThrottleReasons) reasons;
};

bool GpuReadings::empty() const {
  return !utilization && !memory_bytes && !watts && !celsius && !sm_megahertz && !memory_megahertz &&
         !throttle_reasons;
}

std::unique_ptr<Nvml> Nvml::load() {
  // The driver's libraries are not made to be unloaded.
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  look_up(library, "nvmlInit_v2", functions->init);
  look_up(library, "nvmlShutdown", functions->shutdown);
  look_up(library, "nvmlDeviceGetHandleByPciBusId_v2", functions->device);
  look_up(library, "nvmlDeviceGetUtilizationRates", functions->utilization);
  look_up(library, "nvmlDeviceGetMemoryInfo", functions->memory);
  look_up(library, "nvmlDeviceGetPowerUsage", functions->power);
  look_up(library, "nvmlDeviceGetTemperature", functions->temperature);
  look_up(library, "nvmlDeviceGetClockInfo", functions->clock);
  look_up(library, "nvmlDeviceGetCurrentClocksEventReasons", functions->reasons);
  if (functions->reasons == nullptr)
    look_up(library, "nvmlDeviceGetCurrentClocksThrottleReasons", functions->reasons);
  const bool usable =
      functions->init != nullptr && functions->shutdown != nullptr && functions->device != nullptr;
  if (!usable || functions->init() != NVML_SUCCESS) return nullptr;
  return std::make_unique<Nvml>(std::move(functions));
}

Nvml::Nvml(std::unique_ptr<const Functions> functions) : functions_(std::move(functions)) {}

Nvml::~Nvml() {
  functions_->shutdown();
}

GpuReadings Nvml::read(const std::string& bus_id) const {
  const auto device = value_of<nvmlDevice_t>(functions_->device, bus_id.c_str());
  if (!device) return {};
  GpuReadings readings{
      .celsius = as_int(value_of<unsigned int>(functions_->temperature, *device, NVML_TEMPERATURE_GPU)),
      .sm_megahertz = as_int(value_of<unsigned int>(functions_->clock, *device, NVML_CLOCK_SM)),
      .memory_megahertz = as_int(value_of<unsigned int>(functions_->clock, *device, NVML_CLOCK_MEM))};
  if (const auto shares = value_of<nvmlUtilization_t>(functions_->utilization, *device))
    readings.utilization = static_cast<int>(shares->gpu);
  if (const auto memory = value_of<nvmlMemory_t>(functions_->memory, *device))
    readings.memory_bytes = memory->used;
  if (const auto milliwatts = value_of<unsigned int>(functions_->power, *device))
    readings.watts = *milliwatts / 1e3;
  if (const auto reasons = value_of<unsigned long long>(functions_->reasons, *device))
    readings.throttle_reasons = names_of(*reasons);
  return readings;
}

}  // namespace lockstep
