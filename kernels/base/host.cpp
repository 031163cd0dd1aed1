#include "kernels/base/host.h"

#include <unistd.h>

#include "kernels/base/file.h"

namespace lockstep {

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

std::string boot_id() {
  return first_line("/proc/sys/kernel/random/boot_id");
}

}  // namespace lockstep
