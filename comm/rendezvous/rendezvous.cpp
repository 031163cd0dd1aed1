#include "comm/rendezvous/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/net/addresses.h"
#include "comm/net/tcp.h"
#include "comm/rendezvous/run_secret.h"
#include "comm/rendezvous/start.h"
#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/random.h"

namespace lockstep::comm {
namespace {

// An old RUN/meeting may name a store that is gone: read the file again this often.
constexpr Seconds time_per_meeting_file{1};
constexpr std::chrono::milliseconds pause_between_tries{50};

// A name that the rest of the cluster learns later must not hold up rank 0, which has another way.
constexpr Seconds time_to_resolve{5};

// Where the master's name is this host's own, that may be put right: the name is asked again this often.
constexpr Seconds time_per_own_name{1};

// Whoever has a port of the run's and does not prove to be its store holds up rank 0 for so long.
constexpr Seconds time_per_stranger{2};
constexpr Seconds time_for_all_strangers{6};

bool master_is_known(const World& world) {
  if (world.master_addr.empty()) return false;
  // Open MPI names no master; World's default is for ranks of one node.
  return world.source != "openmpi" || world.master_addr != World{}.master_addr;
}

/// The address of --interface, else the one where other hosts most likely reach this machine.
std::string own_address(const CommOptions& options) {
  return options.interface.empty() ? main_address() : address_of_interface(options.interface);
}

struct Call {
  const World& world;
  const CommOptions& options;
  Deadline deadline;
  std::optional<std::string> secret;

  /// For what may fail: at most half of the time that is left.
  Deadline within(Seconds time) const { return Deadline::in(std::min(deadline.left() / 2, time)); }
  std::vector<int> ports() const { return store_ports(world, options.first_port, options.last_port); }
  Credentials credentials_with(std::string run_secret) const {
    return {world.run_id, std::move(run_secret), static_cast<std::uint64_t>(world.restart)};
  }
};

/// Where to look for rank 0's store when the master is known. A host's own name often resolves to 127.0.1.1
/// in its /etc/hosts; rank 0 then listens on an address that other hosts reach, and its neighbours look there
/// too.
std::string store_address(const Call& call) {
  const std::string& master = call.world.master_addr;
  if (is_loopback_address(master)) return master;
  require_interface_in(master);
  const std::string facing = address_facing(master, call.within(time_to_resolve));
  return is_loopback_address(facing) ? own_address(call.options) : master;
}

/// Where rank 0's store listens: at store_address if that is this machine's, else at its own address.
std::string listening_address(const Call& call) {
  const Resolution master = resolve(call.world.master_addr, 0, call.within(time_to_resolve));
  if (!master.list) {
    log::warn("{}; rank 0 listens at {}", master.problem, own_address(call.options));
    return own_address(call.options);
  }
  const std::string address = store_address(call);
  const bool is_own = is_loopback_address(address) || is_own_address(address, call.within(time_to_resolve));
  if (is_own) return address;
  const std::string own = own_address(call.options);
  const std::string number = numeric_address(*master.list->ai_addr);
  log::warn("{} is no address of this host: is this node 0? rank 0 listens at {}",
            number == address ? address : fmt::format("{} ({})", address, number), own);
  return own;
}

/// UsageError when the run's store, which another start of rank 0 has opened, is there.
void require_no_store(const Call& call, const std::string& address, int port, const Credentials& credentials,
                      Deadline deadline) {
  auto store = StoreClient::find(address, port, credentials, deadline);
  if (!store) return;
  const auto holder = store->wait_for(key_of_place(0), deadline);
  throw second_start(call.world.run_id,
                     holder.value_or("rank 0, whose store is at " + endpoint_name(address, port)));
}

std::unique_ptr<StoreServer> open_store(const Call& call, const std::string& address,
                                        const Credentials& credentials) {
  const Deadline deadline = call.within(time_for_all_strangers);
  UniqueFd listener = listen_on_first(address, call.ports(), [&](int port) {
    if (deadline.passed()) return;
    require_no_store(call, address, port, credentials,
                     Deadline::in(std::min(deadline.left(), time_per_stranger)));
  });
  return std::make_unique<StoreServer>(std::move(listener), credentials);
}

/// A process of an earlier start that is still alive proves itself at no data port of this one.
std::uint64_t agree_on_incarnation(StoreClient& store, const World& world, Deadline deadline) {
  constexpr std::string_view key = "incarnation";
  if (world.rank == 0) store.set(key, random_hex(sizeof(std::uint64_t)), deadline);
  return std::stoull(store.wait(key, deadline), nullptr, 16);
}

/// `server` is empty on all ranks but rank 0.
Rendezvous join(const Call& call, std::unique_ptr<StoreServer> server, const std::string& address,
                const std::vector<int>& ports, const Credentials& credentials, Deadline deadline) {
  StoreClient store = StoreClient::connect(
      address, ports, credentials, deadline,
      [&call](StoreClient& found) { return join_start(found, call.world, call.deadline); });
  const std::uint64_t incarnation = agree_on_incarnation(store, call.world, call.deadline);
  std::string own =
      call.options.interface.empty() ? store.own_address() : address_of_interface(call.options.interface);
  const int port = store.port();
  return Rendezvous{.meeting_file = nullptr,
                    .server = std::move(server),
                    .address = address,
                    .port = port,
                    .store = std::move(store),
                    .credentials = credentials,
                    .incarnation = incarnation,
                    .own_address = std::move(own),
                    .keep_alive = nullptr};
}

/// A node that takes the master's name for its own by its /etc/hosts is mostly wrong, or still being set up;
/// but it may stand for another on rank 0's host.
Rendezvous join_from_other_node(const Call& call, const Credentials& credentials) {
  const std::string& master = call.world.master_addr;
  while (true) {
    const std::string address = store_address(call);
    if (address == master) return join(call, nullptr, master, call.ports(), credentials, call.deadline);
    const Deadline end = Deadline::in(std::min(call.deadline.left(), time_per_own_name));
    try {
      return join(call, nullptr, address, call.ports(), credentials, end);
    } catch (const CommError& error) {
      if (!end.passed()) throw;  // refused
      if (call.deadline.passed()) {
        throw CommError(fmt::format("{}; {} is a name of this host here: is its /etc/hosts right?",
                                    error.what(), master));
      }
    }
    std::this_thread::sleep_for(pause_between_tries);
  }
}

Rendezvous join_at_master(const Call& call) {
  const Credentials credentials = call.credentials_with(*call.secret);
  if (call.world.rank == 0) {
    const std::string address = listening_address(call);
    auto server = open_store(call, address, credentials);
    const std::vector<int> port{server->port()};
    return join(call, std::move(server), address, port, credentials, call.deadline);
  }
  return call.world.node_rank == 0
             ? join(call, nullptr, store_address(call), call.ports(), credentials, call.deadline)
             : join_from_other_node(call, credentials);
}

/// Rank 0, when it has to publish its own address.
Rendezvous open_at_own_address(const Call& call) {
  const Credentials credentials = call.credentials_with(call.secret ? *call.secret : make_secret());
  const bool known = master_is_known(call.world);
  const std::string address = known ? listening_address(call) : own_address(call.options);
  auto server = open_store(call, address, credentials);
  const std::vector<int> port{server->port()};
  return join(call, std::move(server), address, port, credentials, call.deadline);
}

MeetingPoint point_of(const Rendezvous& rendezvous) {
  return {rendezvous.address, rendezvous.port, rendezvous.credentials};
}

Credentials credentials_at(const Call& call, const MeetingPoint& point) {
  return call.credentials_with(call.secret ? *call.secret : point.credentials.secret);
}

std::string address_of(const Call& call, const MeetingPoint& point) {
  return as_seen_from(own_address(call.options), point.address);
}

Rendezvous join_at_point(const Call& call, const MeetingPoint& point, Deadline deadline) {
  return join(call, nullptr, address_of(call, point), {point.port}, credentials_at(call, point), deadline);
}

bool is_own_run(const Call& call, const MeetingPoint& point) {
  return point.credentials.run_id == call.world.run_id;
}

/// UsageError when the other run, whose RUN/meeting this is, lives: its ranks may still meet by that.
void require_ended(const Call& call, const MeetingPoint& other) {
  const bool is_on_link = is_link_local_address(other.address);
  if (is_on_link && !is_link_local_address(own_address(call.options))) return;  // which this run does not use
  const std::string address = address_of(call, other);
  Credentials credentials = other.credentials;
  if (credentials.secret.empty() && call.secret) credentials.secret = *call.secret;  // as in join_by_file
  const Deadline deadline = call.within(time_per_stranger);
  auto store = StoreClient::find(address, other.port, credentials, deadline);
  if (!store) return;
  const auto holder = store->wait_for(key_of_place(0), deadline);
  throw UsageError(fmt::format("{} is of run {}, which lives: {}; give this run another --run-dir",
                               MeetingFile::in(call.options.run_dir).string(), credentials.run_id,
                               holder.value_or("its store is at " + endpoint_name(address, other.port))));
}

Rendezvous join_by_file(const Call& call) {
  const auto& run_dir = call.options.run_dir;
  if (call.world.rank == 0) {
    Rendezvous made = open_at_own_address(call);
    MeetingPoint point = point_of(made);
    if (call.secret) point.credentials.secret.clear();  // the others were given it too
    const auto inspect = [&](const MeetingPoint& other) {
      if (!is_own_run(call, other)) return require_ended(call, other);
      require_no_store(call, address_of(call, other), other.port, credentials_at(call, other),
                       call.within(time_per_stranger));
    };
    made.meeting_file = std::make_unique<MeetingFile>(run_dir, point, call.options.timeout, inspect);
    return made;
  }
  std::string obstacle = "there is none";
  while (!call.deadline.passed()) {
    try {
      const auto point = MeetingFile::read(run_dir, call.options.timeout);
      if (point && is_own_run(call, *point)) {
        return join_at_point(call, *point,
                             Deadline::in(std::min(call.deadline.left(), time_per_meeting_file)));
      }
      if (point) {
        obstacle =
            fmt::format("it is of run {}, and this is {}", point->credentials.run_id, call.world.run_id);
      }
    } catch (const CommError& error) {
      obstacle = error.what();
    }
    std::this_thread::sleep_for(pause_between_tries);
  }
  throw CommError(fmt::format(
      "rank 0 was not found through {}: {}; do all nodes see this folder, and were all given the same "
      "secret, or none?",
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
  if (broadcast) return join_by_broadcast(call, broadcast);
  if (!options.run_dir.empty()) return join_by_file(call);
  throw UsageError(fmt::format(
      "{} ranks on several nodes have no common {}: give {}, or --run-dir on a disk that all nodes "
      "see{}",
      world.size, call.secret ? "address of rank 0" : "secret",
      call.secret ? "MASTER_ADDR" : "--token-file or LOCKSTEP_TOKEN (the same on all)",
      call.secret ? "" : ", or --insecure in a network where you trust everybody"));
}

}  // namespace lockstep::comm
