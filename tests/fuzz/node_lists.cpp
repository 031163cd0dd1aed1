// Node lists as Slurm writes them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "comm/world/sources.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto names = lockstep::comm::expand_node_list(text);
  if (names && (names->empty() || names->front().empty())) std::abort();
  const auto tasks = lockstep::comm::expand_tasks_per_node(text);
  if (tasks && (tasks->empty() || tasks->front() < 1)) std::abort();
  return 0;
}
