#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <latch>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/tcp/exchange.h"
#include "comm/tcp/placement.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

/// A connected socket for every pair of ranks; each end can be taken once.
class Sockets {
 public:
  UniqueFd take(int rank, int peer) {
    const std::lock_guard lock(mutex_);
    const auto found = ends_.find({rank, peer});
    if (found != ends_.end()) return std::move(found->second);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
      throw std::runtime_error("socketpair");
    }
    ends_[{peer, rank}] = UniqueFd(pair[1]);
    return UniqueFd(pair[0]);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, UniqueFd> ends_;
};

/// Runs `body` as every rank of a world whose rank r is on node `nodes[r]`.
std::vector<std::string> run_nodes(
    const std::vector<int>& nodes,
    const std::function<void(NodeRanks&, TcpExchange&, std::vector<Link>&)>& body) {
  const Placement placement(nodes);
  const std::string run_id = fresh_run_id();
  Sockets sockets;
  return run_threads(placement.ranks(), [&](int rank) {
    const int node = placement.node_of(rank);
    const auto& ranks = placement.members(node);
    NodeRanks here({.ranks = ranks,
                    .index = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin()),
                    .socket_name = fmt::format("{}-{}", run_id, node)},
                   Seconds(10), Deadline::in(Seconds(10)));
    std::vector<Link> links;
    for (const int peer : placement.peers(rank)) links.emplace_back(peer, Channel(sockets.take(rank, peer)));
    TcpExchange exchange(placement, here, links);
    try {
      body(here, exchange, links);
      for (Link& link : links) link.say_goodbye();
    } catch (const PeerTrouble& trouble) {
      throw std::runtime_error(fmt::format("trouble {}", fmt::join(trouble.ranks, ",")));
    }
  });
}

std::unique_ptr<SharedArena> allocate(NodeRanks& node, DType dtype, std::size_t elements) {
  const auto scope = node.begin_allocation(dtype, static_cast<std::int64_t>(elements));
  return node.allocate_arena(dtype, static_cast<std::int64_t>(elements));
}

template <class T>
void check_sums(NodeRanks& node, TcpExchange& exchange, int world_size, std::size_t count, DType dtype) {
  constexpr std::size_t first = 128 / sizeof(T);
  const auto arena = allocate(node, dtype, first + count + 64 / sizeof(T));
  const auto values = values_of<T>(*arena).subspan(first);
  const ArenaRange range{arena.get(), first, static_cast<std::int64_t>(count)};
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < count; ++i) values[i] = element<T>(node.members().rank(), i);
    const auto scope = node.begin(Call::Kind::all_reduce, std::span(&range, 1), {});
    const bool behind_compute = repeat == 1;
    exchange.all_reduce(std::span(&range, 1), behind_compute);
    for (std::size_t i = 0; i < count; ++i) {
      const T expected = reference<T>(0, world_size, i);
      if (std::memcmp(&values[i], &expected, sizeof(T)) != 0)
        throw std::runtime_error(fmt::format("element {}", i));
    }
    const auto behind = std::as_bytes(values.subspan(count));
    if (std::ranges::any_of(behind, [](std::byte b) { return b != std::byte{0}; })) {
      throw std::runtime_error("wrote behind the range");
    }
  }
}

}  // namespace

TEST_CASE("a node sums its largest whole subtrees", "[comm]") {
  const auto ranges = [](int ranks, std::vector<int> members) { return whole_subtrees(ranks, members); };
  using Ranges = std::vector<RankRange>;
  CHECK(ranges(4, {0, 1}) == Ranges{{0, 2}});
  CHECK(ranges(4, {2, 3}) == Ranges{{2, 4}});
  CHECK(ranges(4, {1, 2}) == Ranges{{1, 2}, {2, 3}});
  CHECK(ranges(4, {1, 2, 3}) == Ranges{{1, 2}, {2, 4}});
  CHECK(ranges(6, {4, 5}) == Ranges{{4, 6}});
  CHECK(ranges(7, {4, 5, 6}) == Ranges{{4, 7}});
  CHECK(ranges(3, {0, 1, 2}) == Ranges{{0, 3}});
}

TEST_CASE("of chunks it is known how many bytes the shortest has", "[comm]") {
  constexpr std::int64_t of_a_chunk = most_chunk_bytes / sizeof(float);
  const std::int64_t elements = GENERATE(64, 4096, 4 * of_a_chunk, 4 * of_a_chunk + 64);
  const int ranks = GENERATE(1, 2, 3);
  const HeapArena arena(nullptr, 0, DType::f32, elements, HeapArena::allocate(DType::f32, elements));
  Chunks chunks;
  chunks.cut(std::array{ArenaRange{&arena, 0, elements}}, ranks);
  std::size_t least = arena.bytes();
  for (int owner = 0; owner < ranks; ++owner) {
    for (std::size_t chunk = 0; chunk < chunks.count(owner); ++chunk)
      least = std::min(least, chunks.at(owner, chunk).bytes());
  }
  CHECK(chunks.least_bytes() == least);
}

TEST_CASE("every rank has a proxy on every other node, and both know of each other", "[comm]") {
  const Placement placement({0, 1, 1, 0, 2, 1});
  for (int owner = 0; owner < placement.ranks(); ++owner) {
    for (int node = 0; node < placement.nodes(); ++node) {
      if (node == placement.node_of(owner)) continue;
      const int proxy = placement.proxy(owner, node);
      CHECK(placement.node_of(proxy) == node);
      CHECK_THAT(placement.peers(owner), Catch::Matchers::VectorContains(proxy));
      CHECK_THAT(placement.peers(proxy), Catch::Matchers::VectorContains(owner));
    }
  }
}

TEST_CASE("sums between nodes have the reference tree's bits, wherever the ranks are", "[comm]") {
  const auto nodes =
      GENERATE(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1}, std::vector{0, 1, 1, 0},
               std::vector{0, 1, 1, 1}, std::vector{0, 1, 2}, std::vector{0, 0, 0},
               std::vector{0, 0, 0, 1, 1}, std::vector{0, 1, 2, 2, 0, 1, 1});
  const std::size_t count = GENERATE(1, 16, 1000, 300003);
  CAPTURE(nodes, count);
  const int size = static_cast<int>(nodes.size());
  CHECK(run_nodes(nodes, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>&) {
          check_sums<float>(node, exchange, size, count, DType::f32);
        }) == std::vector<std::string>(nodes.size()));
}

TEST_CASE("peers that run ahead wait for the slowest", "[comm]") {
  // 8 MB a slice: twice as many chunks as are kept.
  CHECK(run_nodes({0, 1, 2}, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>&) {
          check_sums<float>(node, exchange, 3, 6'000'003, DType::f32);
        }) == std::vector<std::string>(3));
}

TEST_CASE("a peer that runs ahead does not write over chunks that wait for another's", "[comm]") {
  constexpr std::size_t elements_of_a_chunk = most_chunk_bytes / sizeof(float);
  constexpr std::uint16_t kept = 8;
  std::latch ahead(1);
  std::latch summed(1);
  std::vector<float> sum(elements_of_a_chunk);
  const auto errors = run_nodes({0, 1, 2}, [&](NodeRanks& node, TcpExchange& exchange,
                                               std::vector<Link>& links) {
    const auto arena = allocate(node, DType::f32, 3 * (kept + 2) * elements_of_a_chunk);
    const ArenaRange range = all_of(*arena);
    const auto scope = node.begin(Call::Kind::all_reduce, std::span(&range, 1), {});
    if (node.members().rank() == 0) return exchange.all_reduce(std::span(&range, 1));
    Link& link = *std::ranges::find(links, 0, &Link::rank);
    const auto send = [&](std::uint16_t chunk, float value, std::uint64_t until) {
      const std::vector<float> values(elements_of_a_chunk, value);
      link.post({.kind = ChunkHeader::Kind::partial,
                 .call = node.call().number,
                 .signature = node.call().signature(),
                 .chunk = chunk},
                std::as_bytes(std::span(values)));
      while (link.has_outgoing() && link.sent_bytes() < until && link.send_some())
        wait_for_socket(link.fd(), POLLOUT, Deadline::in(Seconds(5)));
    };
    constexpr std::uint64_t chunk_on_the_wire = sizeof(ChunkHeader) + most_chunk_bytes;
    if (node.members().rank() == 1) {  // all that rank 0 keeps, and the beginning of one more
      for (std::uint16_t chunk = 0; chunk < kept; ++chunk) send(chunk, 1, kept * chunk_on_the_wire);
      send(kept, 100, kept * chunk_on_the_wire + sizeof(ChunkHeader) + 1);
      ahead.count_down();
      return summed.wait();
    }
    ahead.wait();
    send(0, 10, chunk_on_the_wire);
    bool is_here = false;
    std::vector<float> others(elements_of_a_chunk);
    const auto place = [&](const ChunkHeader& header) {
      return reinterpret_cast<std::byte*>(header.kind == ChunkHeader::Kind::sum ? sum.data() : others.data());
    };
    const auto arrived = [&](const ChunkHeader& header) { is_here |= header.kind == ChunkHeader::Kind::sum; };
    while (!is_here && link.receive_some(place, arrived))
      wait_for_socket(link.fd(), POLLIN, Deadline::in(Seconds(5)));
    summed.count_down();
  });
  CHECK(errors[0].starts_with("trouble"));  // the others leave in the midst of it
  CHECK(std::ranges::count(sum, 11.0F) == std::ssize(sum));
}

TEST_CASE("f64 sums between nodes too", "[comm]") {
  CHECK(run_nodes({0, 1, 0}, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>&) {
          check_sums<double>(node, exchange, 3, 100003, DType::f64);
        }) == std::vector<std::string>(3));
}

TEST_CASE("halves between nodes are rounded once, at the end, wherever the ranks are", "[comm]") {
  const auto nodes = GENERATE(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 0, 0, 1, 1},
                              std::vector{0, 1, 2, 2, 0, 1, 1});
  const std::size_t count = GENERATE(1, 33, 1'000'003);
  CAPTURE(nodes, count);
  const int size = static_cast<int>(nodes.size());
  CHECK(run_nodes(nodes, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>&) {
          check_sums<BFloat16>(node, exchange, size, count, DType::bf16);
        }) == std::vector<std::string>(nodes.size()));
  CHECK(run_nodes(nodes, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>&) {
          check_sums<Float16>(node, exchange, size, count, DType::f16);
        }) == std::vector<std::string>(nodes.size()));
}

TEST_CASE("a peer that closes its connection is named", "[comm]") {
  const auto errors =
      run_nodes({0, 1}, [&](NodeRanks& node, TcpExchange& exchange, std::vector<Link>& links) {
        const auto arena = allocate(node, DType::f32, 1024);
        const ArenaRange range = all_of(*arena);
        const auto scope = node.begin(Call::Kind::all_reduce, std::span(&range, 1), {});
        if (node.members().rank() == 0) exchange.all_reduce(std::span(&range, 1));
        links.clear();
      });
  CHECK(errors == std::vector<std::string>{"trouble 1", ""});
}

TEST_CASE("chunks that are repeated, left out, another rank's or of another size end the call", "[comm]") {
  using Kind = ChunkHeader::Kind;
  // Ranks 0 and 1 share a node; only the proxy for rank 2's shard gets sums from there.
  const std::vector nodes{0, 0, 1};
  const int proxy = Placement(nodes).proxy(2, 0);
  struct Row {
    std::string what;
    int to;
    std::vector<std::pair<Kind, std::uint16_t>> chunks;  ///< that rank 2 sends
    std::string error;
    std::size_t bytes = most_chunk_bytes;  ///< of each
  };
  const std::vector<Row> rows{
      {"repeated", 0, {{Kind::partial, 0}, {Kind::partial, 0}}, "part 0 of chunk 0 after 1 of 3"},
      {"left out", 0, {{Kind::partial, 1}}, "part 0 of chunk 1 after 0 of 3"},
      {"repeated sum", proxy, {{Kind::sum, 0}, {Kind::sum, 0}}, "summed chunk 0 after 1 of 3"},
      {"another rank's", 1 - proxy, {{Kind::sum, 0}}, "summed chunk 0 after 0 of 0"},
      {"shorter", 0, {{Kind::partial, 0}}, "what does not belong", most_chunk_bytes - sizeof(float)},
      {"longer", 0, {{Kind::partial, 0}}, "what does not belong", most_chunk_bytes + sizeof(float)},
      {"shorter sum", proxy, {{Kind::sum, 0}}, "what does not belong", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto errors = run_nodes(nodes, [&](NodeRanks& node, TcpExchange& exchange,
                                             std::vector<Link>& links) {
      constexpr std::size_t elements_of_a_chunk = most_chunk_bytes / sizeof(float);
      const auto arena = allocate(node, DType::f32, 3 * 3 * elements_of_a_chunk);
      const ArenaRange range = all_of(*arena);
      const auto scope = node.begin(Call::Kind::all_reduce, std::span(&range, 1), {});
      if (node.members().rank() < 2) return exchange.all_reduce(std::span(&range, 1));
      const std::vector<std::byte> bytes(row.bytes);
      Link& link = *std::ranges::find(links, row.to, &Link::rank);
      for (const auto& [kind, chunk] : row.chunks) {
        link.post(
            {.kind = kind, .call = node.call().number, .signature = node.call().signature(), .chunk = chunk},
            bytes);
      }
      while (link.has_outgoing() && link.send_some())
        wait_for_socket(link.fd(), POLLOUT, Deadline::in(Seconds(5)));
    });
    CHECK_THAT(errors[static_cast<std::size_t>(row.to)],
               tests::contains("rank 2 sends " + row.error) && tests::contains(" all-reduce"));
  }
}

TEST_CASE("members that do not finish a call are not named where ranks of other nodes have not come to it",
          "[comm]") {
  const std::vector<int> behind = GENERATE(std::vector<int>{}, std::vector<int>{7});
  const std::string run_id = fresh_run_id();
  const auto errors = run_threads(2, [&](int rank) {
    NodeRanks node({.ranks = {0, 1}, .index = rank, .socket_name = run_id}, Seconds(0.5),
                   Deadline::in(Seconds(10)));
    node.set_ranks_behind([&] { return behind; });
    const auto scope = node.begin(Call::Kind::barrier, 0);
    node.arrive();
    if (rank == 0) return node.arrive();
    while (!node.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as at a link
  });
  CHECK(errors[0] == fmt::format("rank {} did not finish barrier 1 within 0.5 s", behind.empty() ? 1 : 7));
}
