#include "comm/world/run_id.h"

#include <fmt/format.h>

#include "kernels/base/hash.h"

namespace lockstep::comm {

std::string make_run_id(const World& world, const Environment& environment,
                        std::initializer_list<const char*> job_variables) {
  std::string text = world.source;
  for (const char* name : job_variables) {
    if (const auto value = environment(name)) text += fmt::format("\n{}={}", name, *value);
  }
  text += fmt::format("\n{}:{}", world.master_addr, world.master_port);
  return fmt::format("{:016x}", fnv1a(text));
}

}  // namespace lockstep::comm
