#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What a GPU's sensors tell at a moment; without a value what it does not tell.
struct GpuReadings {
  std::optional<int> utilization;             ///< percent of the last moment in which a kernel ran
  std::optional<std::uint64_t> memory_bytes;  ///< in use by all processes, the driver's own included
  std::optional<double> watts;
  std::optional<int> celsius;
  std::optional<int> sm_megahertz;
  std::optional<int> memory_megahertz;
  /// What keeps its clocks down, in nvidia-smi's words: "sw_power_cap", "hw_thermal_slowdown". Empty:
  /// nothing.
  std::optional<std::vector<std::string>> throttle_reasons;

  bool empty() const;
};

/// NVML, which reads the sensors of every GPU that this process can see, without CUDA. One thread uses it.
class Nvml {
  struct Functions;

 public:
  /// Null on a machine without NVIDIA's driver.
  static std::unique_ptr<Nvml> load();
  explicit Nvml(std::unique_ptr<const Functions> functions);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Of the GPU at a PCI address ("0000:3b:00.0"); nothing where there is none.
  GpuReadings read(const std::string& bus_id) const;

 private:
  std::unique_ptr<const Functions> functions_;
};

}  // namespace lockstep
