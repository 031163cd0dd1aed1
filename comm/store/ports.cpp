#include "comm/store/ports.h"

#include "kernels/base/hash.h"

namespace lockstep::comm {

std::vector<int> store_ports(const World& world) {
  if (world.master_port_is_ours) return {world.master_port};
  constexpr int first = 20000;  // up to 31999: below what Linux hands out by itself
  constexpr int groups = 1500;
  constexpr int group_size = 8;
  const int group = static_cast<int>(fnv1a(world.run_id) % groups);
  std::vector<int> ports;
  for (int i = 0; i < group_size; ++i) ports.push_back(first + group * group_size + i);
  return ports;
}

}  // namespace lockstep::comm
