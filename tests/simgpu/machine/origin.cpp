#include "tests/simgpu/machine/origin.h"

#include <dlfcn.h>

#include <cstdint>
#include <sstream>

namespace simgpu {

std::string Origin::text() const {
  if (!site.empty()) return site;
  Dl_info info{};
  if (!address || dladdr(address, &info) == 0) return "an unknown place";
  const std::string path = info.dli_fname;
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  std::ostringstream text;
  text << path.substr(path.find_last_of('/') + 1) << "+0x" << std::hex << offset - 1;
  return text.str();
}

}  // namespace simgpu
