#include "comm/net/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/number.h"
#include "kernels/base/signals.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {
namespace {

struct DeviceAddress {
  std::string device;
  std::string address;
  bool is_up;
};

/// IPv4 first.
std::vector<DeviceAddress> device_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, &freeifaddrs);
  std::vector<DeviceAddress> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      found.push_back({one->ifa_name, numeric_address(*one->ifa_addr), (one->ifa_flags & IFF_UP) != 0});
    }
  }
  return found;
}

std::string without_interface(const std::string& address) {
  return address.substr(0, address.find('%'));
}

std::vector<int> consecutive(int first, int count) {
  std::vector<int> ports(static_cast<std::size_t>(count));
  std::iota(ports.begin(), ports.end(), first);
  return ports;
}

DeviceAddress find_interface(const std::string& name) {
  std::vector<std::string> names;
  for (DeviceAddress& candidate : device_addresses()) {
    if (candidate.device == name || candidate.address == name) return std::move(candidate);
    names.push_back(fmt::format("{} ({})", candidate.device, candidate.address));
  }
  throw UsageError(fmt::format("--interface {}: no device or address of this machine, which has {}", name,
                               fmt::join(names, ", ")));
}

}  // namespace

std::string address_of_interface(const std::string& name) {
  return find_interface(name).address;
}

std::string device_of_interface(const std::string& name) {
  return find_interface(name).device;
}

std::string address_facing(const std::string& remote, Deadline deadline) {
  constexpr int any_port = 9;  // a connected UDP socket has an own address, and nothing is sent
  const Resolution found = resolve(remote, any_port, deadline);
  for (const addrinfo* one = found.list.get(); one != nullptr; one = one->ai_next) {
    const UniqueFd fd(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return local_address(fd.get());
  }
  return {};
}

std::string main_address() {
  // Addresses for documentation (RFC 5737, RFC 3849): routed like any other of the outside world.
  for (const char* outside : {"192.0.2.1", "2001:db8::1"}) {
    std::string address = address_facing(outside);
    if (!address.empty()) return address;
  }
  std::string link_local;
  for (const DeviceAddress& candidate : device_addresses()) {
    if (!candidate.is_up || is_loopback_address(candidate.address)) continue;
    if (!is_link_local_address(candidate.address)) return candidate.address;
    if (link_local.empty()) link_local = candidate.address;
  }
  return link_local.empty() ? "127.0.0.1" : link_local;
}

bool is_own_address(const std::string& address, Deadline deadline) {
  const Resolution found = resolve(address, 0, deadline);
  if (!found.list) return false;
  const std::string number = numeric_address(*found.list->ai_addr);
  const auto devices = device_addresses();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const DeviceAddress& own) { return own.address == number; });
}

std::string numeric_address(const sockaddr& address) {
  const bool is_ipv6 = address.sa_family == AF_INET6;
  char host[NI_MAXHOST] = "?";
  getnameinfo(&address, is_ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), host, sizeof(host), nullptr, 0,
              NI_NUMERICHOST);
  return host;
}

bool is_loopback_address(const std::string& address) {
  return address.compare(0, 4, "127.") == 0 || address == "::1" || address == "localhost";
}

bool is_link_local_address(const std::string& address) {
  in6_addr bytes{};
  return inet_pton(AF_INET6, without_interface(address).c_str(), &bytes) == 1 &&
         IN6_IS_ADDR_LINKLOCAL(&bytes);
}

std::string as_seen_from(const std::string& own, const std::string& address) {
  if (!is_link_local_address(address)) return address;
  if (is_link_local_address(own)) return without_interface(address) + own.substr(own.find('%'));
  throw CommError(
      fmt::format("{} reaches its own link only, and this rank is at {}: give --interface with an address "
                  "that all nodes reach",
                  address, own));
}

void require_interface_in(const std::string& address) {
  if (!is_link_local_address(address) || address.find('%') != std::string::npos) return;
  throw UsageError(fmt::format("{0} is on every link: name the interface too, as in {0}%eth0", address));
}

std::vector<int> store_ports(const World& world, int first_port, int last_port) {
  if (world.master_port_is_ours) return {world.master_port};
  if (first_port != 0) return consecutive(first_port, last_port - first_port + 1);
  constexpr int first = 20000;  // up to 31999: below what Linux hands out by itself
  constexpr int groups = 1500;
  constexpr int group_size = 8;
  const int group = static_cast<int>(fnv1a(world.run_id) % groups);
  return consecutive(first + group * group_size, group_size);
}

std::string name_of_ports(const std::vector<int>& ports) {
  constexpr std::size_t most_bytes = 200;
  return ranges_of(ports, most_bytes, ", ", ", ...");
}

}  // namespace lockstep::comm
