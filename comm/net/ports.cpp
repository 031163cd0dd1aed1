#include "comm/net/ports.h"

#include <numeric>

#include "kernels/base/hash.h"

namespace lockstep::comm {

namespace {

std::vector<int> consecutive(int first, int count) {
  std::vector<int> ports(static_cast<std::size_t>(count));
  std::iota(ports.begin(), ports.end(), first);
  return ports;
}

}  // namespace

std::vector<int> store_ports(const World& world, int first_port, int last_port) {
  if (world.master_port_is_ours) return {world.master_port};
  if (first_port != 0) return consecutive(first_port, last_port - first_port + 1);
  constexpr int first = 20000;  // up to 31999: below what Linux hands out by itself
  constexpr int groups = 1500;
  constexpr int group_size = 8;
  const int group = static_cast<int>(fnv1a(world.run_id) % groups);
  return consecutive(first + group * group_size, group_size);
}

}  // namespace lockstep::comm
