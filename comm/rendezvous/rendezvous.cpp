#include "comm/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/net/addresses.h"
#include "comm/rendezvous/run_secret.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"

namespace lockstep::comm {
namespace {

// An old RUN/meeting may name a store that is gone: read the file again this often.
constexpr Seconds time_per_meeting_file{1};
constexpr std::chrono::milliseconds pause_for_meeting_file{50};

// A name that the rest of the cluster learns later must not hold up rank 0, which has another way.
constexpr Seconds time_to_resolve{5};

bool stands_for_itself(const std::string& address) {
  return address == "localhost" || is_loopback_address(address);
}

bool master_is_known(const World& world) {
  if (world.master_addr.empty()) return false;
  // Open MPI names no master; World's default is for ranks of one node.
  return world.source != "openmpi" || world.master_addr != World{}.master_addr;
}

/// The address of --interface, else the one where other hosts most likely reach this machine.
std::string own_address(const CommOptions& options) {
  return options.interface.empty() ? main_address() : address_of_interface(options.interface);
}

/// Where to look for rank 0's store when the master is known. A host's own name often resolves to 127.0.1.1
/// in its /etc/hosts; rank 0 then listens on an address that other hosts reach, and its neighbours look there
/// too.
std::string store_address(const World& world, const CommOptions& options) {
  if (stands_for_itself(world.master_addr)) return world.master_addr;
  require_interface_in(world.master_addr);
  const std::string facing = address_facing(world.master_addr, Deadline::in(time_to_resolve));
  return is_loopback_address(facing) ? own_address(options) : world.master_addr;
}

/// Where rank 0's store listens: at store_address if that is this machine's, else at its own address.
std::string listening_address(const World& world, const CommOptions& options) {
  const std::string address = store_address(world, options);
  return stands_for_itself(address) || is_own_address(address) ? address : own_address(options);
}

struct Call {
  const World& world;
  const CommOptions& options;
  Deadline deadline;
  std::optional<std::string> secret;
};

std::unique_ptr<StoreServer> open_store(const Call& call, const std::string& address,
                                        const Credentials& credentials) {
  const auto ports = store_ports(call.world, call.options.first_port, call.options.last_port);
  return std::make_unique<StoreServer>(address, ports, credentials);
}

/// `server` is empty on all ranks but rank 0.
Rendezvous join(const Call& call, std::unique_ptr<StoreServer> server, const std::string& address,
                const std::vector<int>& ports, const Credentials& credentials, Deadline deadline) {
  const std::string name = fmt::format("rank {} (pid {} on {})", call.world.rank, getpid(), host_name());
  StoreClient store = StoreClient::connect(address, ports, credentials, deadline, name);
  std::string own =
      call.options.interface.empty() ? store.own_address() : address_of_interface(call.options.interface);
  const int port = store.port();
  return Rendezvous{.meeting_file = nullptr,
                    .server = std::move(server),
                    .address = address,
                    .port = port,
                    .store = std::move(store),
                    .credentials = credentials,
                    .own_address = std::move(own),
                    .keep_alive = nullptr};
}

Rendezvous join_at_master(const Call& call) {
  const Credentials credentials{call.world.run_id, *call.secret};
  if (call.world.rank == 0) {
    const std::string address = listening_address(call.world, call.options);
    auto server = open_store(call, address, credentials);
    const std::vector<int> port{server->port()};
    return join(call, std::move(server), address, port, credentials, call.deadline);
  }
  const auto ports = store_ports(call.world, call.options.first_port, call.options.last_port);
  return join(call, nullptr, store_address(call.world, call.options), ports, credentials, call.deadline);
}

/// Rank 0, when it has to publish its own address.
Rendezvous open_at_own_address(const Call& call) {
  const Credentials credentials{call.world.run_id, call.secret ? *call.secret : make_secret()};
  const bool known = master_is_known(call.world);
  const std::string address = known ? listening_address(call.world, call.options) : own_address(call.options);
  auto server = open_store(call, address, credentials);
  const std::vector<int> port{server->port()};
  return join(call, std::move(server), address, port, credentials, call.deadline);
}

MeetingPoint point_of(const Rendezvous& rendezvous) {
  return {rendezvous.address, rendezvous.port, rendezvous.credentials};
}

Rendezvous join_at_point(const Call& call, const MeetingPoint& point, Deadline deadline) {
  Credentials credentials = point.credentials;
  if (call.secret) credentials.secret = *call.secret;
  const std::string address = as_seen_from(own_address(call.options), point.address);
  return join(call, nullptr, address, {point.port}, credentials, deadline);
}

Rendezvous join_by_file(const Call& call) {
  const auto& run_dir = call.options.run_dir;
  if (call.world.rank == 0) {
    Rendezvous made = open_at_own_address(call);
    MeetingPoint point = point_of(made);
    if (call.secret) point.credentials.secret.clear();  // the others were given it too
    made.meeting_file = std::make_unique<MeetingFile>(run_dir, point);
    return made;
  }
  std::string obstacle = "there is none";
  while (!call.deadline.passed()) {
    try {
      if (const auto point = MeetingFile::read(run_dir, call.world.run_id)) {
        return join_at_point(call, *point,
                             Deadline::in(std::min(call.deadline.left(), time_per_meeting_file)));
      }
    } catch (const CommError& error) {
      obstacle = error.what();
    }
    std::this_thread::sleep_for(pause_for_meeting_file);
  }
  throw CommError(fmt::format("rank 0 was not found through {}: {}; do all nodes see this folder?",
                              MeetingFile::in(run_dir).string(), obstacle));
}

Rendezvous join_by_broadcast(const Call& call, const Broadcast& broadcast) {
  if (call.world.rank != 0) {
    const auto point = parse_meeting_point(broadcast({}));
    if (!point) throw CommError("rank 0 could not open the store: see its own message");
    return join_at_point(call, *point, call.deadline);
  }
  std::optional<Rendezvous> made;
  try {
    made.emplace(open_at_own_address(call));
  } catch (const Error&) {
    broadcast("none\n");  // the others wait in it
    throw;
  }
  broadcast(to_text(point_of(*made)));
  return *std::move(made);
}

}  // namespace

Rendezvous open_rendezvous(const World& world, const CommOptions& options, Deadline deadline,
                           const Broadcast& broadcast) {
  const Call call{world, options, deadline, given_secret(options, process_environment())};
  const bool known = master_is_known(world);
  if (call.secret && known) return join_at_master(call);
  if (!options.run_dir.empty()) return join_by_file(call);
  if (broadcast) return join_by_broadcast(call, broadcast);
  throw UsageError(fmt::format(
      "{} ranks on several nodes have no common {}: give {}, or --run-dir on a disk that all nodes "
      "see{}",
      world.size, call.secret ? "address of rank 0" : "secret",
      call.secret ? "MASTER_ADDR" : "--token-file or LOCKSTEP_TOKEN (the same on all)",
      call.secret ? "" : ", or --insecure in a network where you trust everybody"));
}

}  // namespace lockstep::comm
