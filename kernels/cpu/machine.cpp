#include "kernels/machine.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <fstream>

#include "kernels/base/hash.h"

namespace lockstep::kernels {
namespace {

/// A digest: processors of one model differ by what their hypervisor or firmware has switched off.
std::string processor_flags() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("flags")) return Sha256().update(line).hex().substr(0, 8);
  }
  return "unknown";
}

}  // namespace

std::string machine_line(const Device& device) {
  const std::string line = fmt::format("{}, {}", device.name(), device.instruction_set());
  if (!device.is_cpu()) return line;  // a GPU's libraries are in its instruction set
  const dnnl_version_t* onednn = dnnl_version();
  return fmt::format("{}, flags {}, threads {}, oneDNN {}.{}.{}", line, processor_flags(), device.threads(),
                     onednn->major, onednn->minor, onednn->patch);
}

}  // namespace lockstep::kernels
