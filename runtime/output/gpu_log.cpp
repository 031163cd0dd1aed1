#include "runtime/output/gpu_log.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "kernels/base/log.h"
#include "kernels/base/nvml.h"

namespace lockstep::runtime {
namespace {

constexpr std::chrono::seconds interval{1};

std::map<int, GpuReadings> read_all(const Nvml& nvml, const std::map<int, std::string>& bus_ids) {
  std::map<int, GpuReadings> readings;
  for (const auto& [rank, bus_id] : bus_ids) {
    GpuReadings of_rank = nvml.read(bus_id);
    if (!of_rank.empty()) readings.emplace(rank, std::move(of_rank));
  }
  return readings;
}

}  // namespace

std::map<int, std::string> gpus_of_this_machine(comm::Communicator& communicator,
                                                const kernels::Device& device) {
  if (device.is_cpu()) return {};  // of all ranks, or of none
  const std::string machine = boot_id() + ' ';
  std::map<int, std::string> bus_ids;
  int rank = 0;
  for (const std::string& gpu : communicator.all_gather(machine + device.bus_id())) {
    if (gpu.starts_with(machine)) bus_ids.emplace(rank, gpu.substr(machine.size()));
    ++rank;
  }
  return bus_ids;
}

GpuLog::GpuLog(const RunFiles& files, std::map<int, std::string> bus_ids, std::int64_t step)
    : files_(files), bus_ids_(std::move(bus_ids)), step_(step) {
  if (!bus_ids_.empty()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void GpuLog::run(const std::stop_token& stop) const {
  const auto nvml = Nvml::load();
  if (!nvml) return;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  try {
    for (auto next = Clock::now(); !stop.stop_requested();) {
      const auto readings = read_all(*nvml, bus_ids_);
      if (!readings.empty()) files_.log_gpus(step_.load(std::memory_order_relaxed), readings);
      next += interval;
      wake.wait_until(lock, stop, next, [] { return false; });
    }
  } catch (const DeviceError& error) {  // the run itself writes there too, and ends
    log::warn("{}", error.what());
  }
}

}  // namespace lockstep::runtime
