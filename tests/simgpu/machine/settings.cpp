#include "tests/simgpu/machine/settings.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/base/gpus.h"
#include "tests/simgpu/operation.h"

namespace simgpu {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::uint64_t number(std::string_view text, const char* name) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    report_mistake("wrong setting",
                   std::string(name) + "=" + std::string(text) + ": expected a whole number");
  }
  return value;
}

void set_number(const char* name, auto& target, std::uint64_t unit = 1) {
  const auto text = variable(name);
  if (!text.empty())
    target = static_cast<std::remove_reference_t<decltype(target)>>(number(text, name) * unit);
}

/// Each process has a file of its own, named by its number.
std::string file_of_this_process(const char* name) {
  const auto text = variable(name);
  return text.empty() ? std::string() : std::string(text) + "." + std::to_string(::getpid());
}

void set_policy(Settings& settings) {
  constexpr std::string_view random = "random:";
  const auto text = variable("SIMGPU_POLICY");
  if (text.empty() || text == "eager") return;
  if (text == "lazy") {
    settings.policy = Policy::lazy;
  } else if (text.substr(0, random.size()) == random) {
    settings.policy = Policy::random;
    settings.seed = number(text.substr(random.size()), "SIMGPU_POLICY");
  } else {
    report_mistake("wrong setting",
                   "SIMGPU_POLICY=" + std::string(text) + ": expected eager, lazy or random:SEED");
  }
}

void set_failing_call(Settings& settings) {
  const auto text = variable("SIMGPU_FAIL_CALL");
  if (text.empty()) return;
  const std::size_t at = text.rfind('@');
  const bool names_function = at != std::string_view::npos;
  if (names_function) settings.fail_function = text.substr(0, at);
  settings.fail_call = number(names_function ? text.substr(at + 1) : text, "SIMGPU_FAIL_CALL");
}

void set_failing_kernel(Settings& settings) {
  const auto text = variable("SIMGPU_FAIL_KERNEL");
  if (text.empty()) return;
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at == 0) {
    report_mistake("wrong setting", "SIMGPU_FAIL_KERNEL=" + std::string(text) + ": expected NAME@RUN");
  }
  settings.fail_kernel = text.substr(0, at);
  settings.fail_run = number(text.substr(at + 1), "SIMGPU_FAIL_KERNEL");
}

/// Of the machine's devices those that CUDA_VISIBLE_DEVICES lists, by number, up to the first that is none.
void choose_visible(Settings& settings) {
  const char* const given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return;
  for (const std::string& entry : lockstep::visible_devices(given)) {
    int device = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), device);
    if (error != std::errc{} || end != entry.data() + entry.size() || device >= settings.devices) break;
    settings.physical.push_back(device);
  }
  settings.devices = static_cast<int>(settings.physical.size());
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  set_number("SIMGPU_DEVICES", settings.devices);
  choose_visible(settings);
  set_number("SIMGPU_CAPABILITY", settings.capability);
  set_number("SIMGPU_CODE", settings.code);
  set_number("SIMGPU_HELD", settings.held);
  set_number("SIMGPU_MEMORY_MB", settings.device_bytes, std::uint64_t{1} << 20);
  set_number("SIMGPU_LEAKS", settings.report_leaks);
  set_number("CUDA_LAUNCH_BLOCKING", settings.launch_blocking);
  set_failing_call(settings);
  set_failing_kernel(settings);
  set_policy(settings);
  settings.trace = file_of_this_process("SIMGPU_TRACE");
  settings.calls = file_of_this_process("SIMGPU_CALLS");
  return settings;
}

}  // namespace simgpu
