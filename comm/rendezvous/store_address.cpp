#include "comm/rendezvous/store_address.h"

#include "comm/net/interfaces.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {
namespace {

// A name that the rest of the cluster learns later must not hold up rank 0, which has another way.
constexpr Seconds time_to_resolve{5};

bool stands_for_itself(const std::string& address) {
  return address == "localhost" || is_loopback_address(address);
}

}  // namespace

bool master_is_known(const World& world) {
  if (world.master_addr.empty()) return false;
  // Open MPI names no master; World's default is for ranks of one node.
  return world.source != "openmpi" || world.master_addr != World{}.master_addr;
}

std::string own_address(const CommOptions& options) {
  return options.interface.empty() ? main_address() : address_of_interface(options.interface);
}

std::string store_address(const World& world, const CommOptions& options) {
  if (stands_for_itself(world.master_addr)) return world.master_addr;
  const std::string facing = address_facing(world.master_addr, Deadline::in(time_to_resolve));
  return is_loopback_address(facing) ? own_address(options) : world.master_addr;
}

std::string listening_address(const World& world, const CommOptions& options) {
  const std::string address = store_address(world, options);
  return stands_for_itself(address) || is_own_address(address) ? address : own_address(options);
}

}  // namespace lockstep::comm
