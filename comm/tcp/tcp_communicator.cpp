#include "comm/tcp/tcp_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/reduce/reduce.h"
#include "comm/tcp/mesh.h"
#include "kernels/base/error.h"
#include "kernels/base/host.h"
#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

/// Broadcasts and texts go through the store, whose values are limited. Pieces let the root send one while
/// the others fetch the last: 64 MiB to 4 ranks take 0.30 s in pieces of 512 KiB, 0.40 s of 4 MiB.
constexpr std::size_t piece_bytes = std::size_t{512} << 10;

/// How long a rank that ends with an error waits for the others to do so too.
constexpr Seconds time_to_give_up{1};

/// A failure wakes nobody who waits for the store.
constexpr Seconds time_between_looks{0.1};

std::vector<int> node_numbers(const std::vector<PeerInfo>& peers) {
  std::vector<int> numbers;
  for (const PeerInfo& peer : peers) {
    numbers.push_back(static_cast<int>(std::ranges::find(peers, peer.node, &PeerInfo::node) - peers.begin()));
  }
  return numbers;
}

NodeMembers members_of(const Placement& placement, const World& world, std::uint64_t incarnation) {
  const auto& ranks = placement.members(placement.node_of(world.rank));
  return {.ranks = ranks,
          .index = static_cast<int>(std::ranges::find(ranks, world.rank) - ranks.begin()),
          .socket_name = local_socket_name(world.run_id, fmt::format("{:x}", incarnation), ranks.front()),
          .run_id = world.run_id};
}

}  // namespace

TcpCommunicator::TcpCommunicator(const World& world, const CommOptions& options, Rendezvous rendezvous,
                                 Deadline deadline)
    : world_(world), rendezvous_(std::move(rendezvous)), tree_(world.size) {
  connect(options, deadline);
  start_watching(deadline);
}

void TcpCommunicator::connect(const CommOptions& options, Deadline deadline) {
  MeetingWatch watch(rendezvous_.store, world_.rank, world_.size, deadline);
  try {
    meet(options, watch, deadline);
  } catch (const CommError& error) {
    throw CommError(watch.tell(error.what()));
  } catch (const std::exception& error) {
    watch.tell(fmt::format("rank {}: {}", world_.rank, error.what()));
    throw;
  }
}

void TcpCommunicator::meet(const CommOptions& options, MeetingWatch& watch, Deadline deadline) {
  DataSecurity security{rendezvous_.credentials, options.encrypt_data};
  security.credentials.incarnation = rendezvous_.incarnation;
  AuthenticatedListener listener(
      listen_in_range(rendezvous_.own_address, options.first_port, options.last_port), security.credentials,
      security.encrypted);
  peers_ = exchange_peer_info(rendezvous_.store, world_.rank, world_.size,
                              {.node = node_hint(options.node),
                               .host = host_name(),
                               .pid = static_cast<int>(getpid()),
                               .address = rendezvous_.own_address,
                               .port = listener.port()},
                              deadline, &watch);
  placement_.emplace(node_numbers(peers_));
  const Look look = look_at(watch, peers_);
  node_.emplace(members_of(*placement_, world_, rendezvous_.incarnation), options.timeout, deadline, look);
  links_ = connect_peers(*placement_, world_.rank, peers_, security, listener, deadline, look);
  for (const Link& link : links_) {
    if (options.most_bytes_per_s > 0) limit_sending(link.fd(), options.most_bytes_per_s);
  }
  exchange_.emplace(*placement_, *node_, links_);
  gather_.emplace(rendezvous_.store, *node_, peers_, [this](int rank) { return watchdog_->status_of(rank); });
}

void TcpCommunicator::start_watching(Deadline deadline) {
  store_status_.emplace([this](Deadline until) { return connect_again(until); }, links_, world_.rank,
                        deadline);
  watchdog_.emplace(*node_, world_.size, &*store_status_);
  node_->set_ranks_behind([this] { return watchdog_->ranks_behind(); });
  listener_.emplace(connect_again(deadline), *node_, *watchdog_, name_of(0, peers_.front()), deadline);
  if (rendezvous_.server == nullptr) return;
  rendezvous_.server->on_lost([this](const std::string& name, const std::string& reason) {
    node_->abort(fmt::format("{} was lost: {}", name, reason));
  });
}

StoreClient TcpCommunicator::connect_again(Deadline deadline) const {
  return StoreClient::connect(rendezvous_.address, {rendezvous_.port}, rendezvous_.credentials, deadline);
}

TcpCommunicator::~TcpCommunicator() {
  leave_together();
  if (rendezvous_.server != nullptr) rendezvous_.server->on_lost({});
  for (Link& link : links_) link.say_goodbye();
}

void TcpCommunicator::leave_together() noexcept {
  if (failed()) return;
  const Deadline deadline = Deadline::in(std::uncaught_exceptions() > 0 ? time_to_give_up : node_->timeout());
  const auto key = [](int rank) { return fmt::format("left/{}", rank); };
  try {
    rendezvous_.store.set(key(world_.rank), "", deadline);
    const auto has_left = [&](int rank) {
      while (!failed() && !deadline.passed()) {
        const auto soon = Deadline::in(std::min(deadline.left(), time_between_looks));
        if (rendezvous_.store.wait_for(key(rank), soon)) return true;
      }
      return false;
    };
    for (int rank = 0; rank < world_.size && has_left(rank);) ++rank;
    rendezvous_.store.say_goodbye(deadline);
  } catch (const std::exception&) {
    // A rank has left already; the run is over.
  }
}

template <class Body>
auto TcpCommunicator::guarded(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const PeerTrouble& trouble) {
    fail(explain(trouble));
  } catch (const CommError& error) {
    fail(error.what());
  }
}

/// Reports the root cause of all nodes, not the secondary failure that this rank may have seen.
void TcpCommunicator::fail(const std::string& reason) {
  node_->abort(reason);
  const FailureReport report = watchdog_->report();
  throw CommError(report.cause);
}

std::string TcpCommunicator::explain(const PeerTrouble& trouble) {
  const bool is_silent = trouble.kind == PeerTrouble::Kind::silent;
  const std::vector<int> named = is_silent ? node_->culprits(trouble.ranks) : trouble.ranks;
  const std::string ranks = named.size() == 1 ? name_of(named[0], peers_[static_cast<std::size_t>(named[0])])
                                              : name_of_ranks(named);
  switch (trouble.kind) {
    case PeerTrouble::Kind::lost:
      return trouble.problem.empty()
                 ? fmt::format("{} closed its connection", ranks)
                 : fmt::format("the data connection to {} broke: {}", ranks, trouble.problem);
    case PeerTrouble::Kind::left:
      return fmt::format("{} left the group before the end of {}", ranks, node_->call().describe());
    case PeerTrouble::Kind::silent:
      break;
  }
  return fmt::format("{} did not finish {} within {:g} s", ranks, node_->call().describe(),
                     node_->timeout().count());
}

std::unique_ptr<Arena> TcpCommunicator::allocate_arena(DType dtype, std::int64_t elements) {
  const auto scope = node_->begin_allocation(dtype, elements);
  return guarded([&] { return node_->allocate_arena(dtype, elements); });
}

ExchangeTiming TcpCommunicator::all_reduce(std::span<const ArenaRange> ranges, ExchangeLabel label,
                                           kernels::Stream&) {
  check_summable_ranges(ranges, &*node_, "all_reduce");
  const auto scope = node_->begin(Call::Kind::all_reduce, ranges, label);
  guarded([&] { exchange_->all_reduce(ranges, label.behind_compute); });
  return node_->timing(exchange_->all_here());
}

ExchangeTiming TcpCommunicator::reduce_scatter(const ArenaRange& range, ExchangeLabel label,
                                               kernels::Stream&) {
  check_summable_ranges(std::span(&range, 1), &*node_, "reduce_scatter");
  const auto scope = node_->begin(Call::Kind::reduce_scatter, std::span(&range, 1), label);
  guarded([&] { exchange_->reduce_scatter(range, label.behind_compute); });
  return node_->timing(exchange_->all_here());
}

ExchangeTiming TcpCommunicator::all_gather(const ArenaRange& range, ExchangeLabel label, kernels::Stream&) {
  check_ranges(std::span(&range, 1), &*node_, "all_gather");
  const auto scope = node_->begin(Call::Kind::all_gather, std::span(&range, 1), label);
  guarded([&] { exchange_->all_gather(range, label.behind_compute); });
  return node_->timing(exchange_->all_here());
}

ExchangeTiming TcpCommunicator::all_gather_filled(const ArenaRange& range, ExchangeLabel label,
                                                  kernels::Stream&) {
  check_ranges(std::span(&range, 1), &*node_, "all_gather_filled");
  const auto scope = node_->begin(Call::Kind::all_gather_filled, std::span(&range, 1), label);
  guarded([&] { exchange_->all_gather_filled(range, label.behind_compute); });
  return node_->timing(exchange_->all_here());
}

void TcpCommunicator::all_reduce_sum(std::span<double> values) {
  const auto scope = node_->begin(Call::Kind::all_reduce_sum, values.size_bytes());
  const std::string_view mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  const std::vector<std::string> texts = guarded([&] { return (*gather_)(mine); });
  // Sums need aligned numbers, which a text's bytes may not be.
  std::vector<std::vector<double>> all(texts.size(), std::vector<double>(values.size()));
  std::vector<ReduceInput> operands;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].size() != values.size_bytes()) fail(fmt::format("rank {} sums other values", rank));
    std::memcpy(all[rank].data(), texts[rank].data(), values.size_bytes());
    operands.push_back({std::as_bytes(std::span(all[rank])).data(), DType::f64});
  }
  std::byte* const output = std::as_writable_bytes(values).data();
  reduce(DType::f64, tree_, operands, std::span(&output, 1), values.size());
}

void TcpCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  const auto scope = node_->begin(Call::Kind::broadcast, bytes.size(), static_cast<std::uint64_t>(root));
  do {
    const auto piece = bytes.first(std::min(bytes.size(), piece_bytes));
    const std::string_view mine(reinterpret_cast<const char*>(piece.data()),
                                world_.rank == root ? piece.size() : 0);
    const std::string sent =
        guarded([&] { return std::move((*gather_)(mine)[static_cast<std::size_t>(root)]); });
    if (sent.size() != piece.size()) fail(fmt::format("rank {} broadcasts {} bytes", root, sent.size()));
    std::memcpy(piece.data(), sent.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

std::vector<std::string> TcpCommunicator::all_gather(std::string_view mine) {
  const auto scope = node_->begin(Call::Kind::all_gather_texts, 0);
  std::vector<std::string> texts(static_cast<std::size_t>(world_.size));
  bool complete = false;
  // A piece is the length of what is left, a space, then as much of it as fits.
  while (!complete) {
    const std::string piece = fmt::format("{} {}", mine.size(), mine.substr(0, piece_bytes));
    mine.remove_prefix(std::min(mine.size(), piece_bytes));
    const std::vector<std::string> pieces = guarded([&] { return (*gather_)(piece); });
    complete = true;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      texts[rank].append(pieces[rank], pieces[rank].find(' ') + 1);
      complete = complete && leading_number<std::size_t>(pieces[rank]) <= piece_bytes;
    }
  }
  return texts;
}

void TcpCommunicator::barrier() {
  const auto scope = node_->begin(Call::Kind::barrier, 0);
  guarded([&] { (*gather_)({}); });
}

}  // namespace lockstep::comm
