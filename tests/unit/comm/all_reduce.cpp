#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

template <class T>
DType dtype_of() {
  if (std::is_same_v<T, BFloat16>) return DType::bf16;
  if (std::is_same_v<T, Float16>) return DType::f16;
  return std::is_same_v<T, float> ? DType::f32 : DType::f64;
}

/// Every rank reduces `count` elements behind `offset` bytes and compares all bits with the reference.
template <class T>
void check_sum(Communicator& group, std::size_t offset, std::size_t count) {
  const std::size_t first = offset / sizeof(T);
  const auto arena =
      group.allocate_arena(dtype_of<T>(), static_cast<std::int64_t>(first + count + 64 / sizeof(T)));
  const ArenaRange range{.arena = arena.get(),
                         .first = static_cast<std::int64_t>(first),
                         .count = static_cast<std::int64_t>(count)};
  const auto values = values_of<T>(*arena).subspan(first);
  const World& world = group.world();
  NoStream stream;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < count; ++i) values[i] = element<T>(world.rank, i);
    group.all_reduce(range, {.bucket = 0, .what = "fc1.weight"}, stream);
    for (std::size_t i = 0; i < count; ++i) {
      const T expected = reference<T>(0, world.size, i);
      if (std::memcmp(&values[i], &expected, sizeof(T)) != 0) {
        throw std::runtime_error("element " + std::to_string(i) + " of " + std::to_string(count));
      }
    }
    for (const std::byte byte : std::as_bytes(values.subspan(count))) {
      if (byte != std::byte{0}) throw std::runtime_error("wrote behind the range");
    }
  }
}

const CommOptions ten_seconds{.timeout = Seconds(10)};

std::vector<std::string> no_errors(int size) {
  return std::vector<std::string>(static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("sums have the reference tree's bits on every rank", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const std::size_t count = GENERATE(0, 1, 4, 15, 17, 1000, 4096, 4097, 16385, 100003);
  CAPTURE(size, count);
  CHECK(run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
          check_sum<float>(group, 128, count);
        }) == no_errors(size));
}

TEST_CASE("f64 sums too", "[comm]") {
  const int size = GENERATE(2, 3);
  const std::size_t count = GENERATE(1, 7, 2049, 30001);
  CAPTURE(size, count);
  CHECK(run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
          check_sum<double>(group, 0, count);
        }) == no_errors(size));
}

TEMPLATE_TEST_CASE("halves are added in f32 and rounded once", "[comm]", BFloat16, Float16) {
  const int size = GENERATE(1, 2, 3, 5);
  const std::size_t count = GENERATE(1, 7, 8192, 8193, 60001);
  CAPTURE(size, count);
  CHECK(run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
          check_sum<TestType>(group, 64, count);
        }) == no_errors(size));
}

TEST_CASE("40 MiB over processes", "[comm]") {
  const int size = 2;
  const std::string run_id = fresh_run_id();
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([=] {
      const auto group = make_communicator(local_world(rank, size, run_id), ten_seconds);
      check_sum<float>(*group, 64, 10 * 1024 * 1024);
    });
  }
  for (RankProcess& rank : ranks) CHECK(rank.outcome().empty());
}

TEST_CASE("many small sums in a row do not mix", "[comm]") {
  const int size = GENERATE(2, 3);
  const auto errors = run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1024);
    const auto values = values_of<float>(*arena);
    NoStream stream;
    for (int step = 0; step < 500; ++step) {
      const std::size_t count = 1 + static_cast<std::size_t>(step) % 1000;
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(step + group.world().rank);
      group.all_reduce({arena.get(), 0, static_cast<std::int64_t>(count)}, {}, stream);
      const auto expected = static_cast<float>(size * step + size * (size - 1) / 2);
      for (std::size_t i = 0; i < count; ++i) {
        if (values[i] != expected) throw std::runtime_error("step " + std::to_string(step));
      }
    }
  });
  CHECK(errors == no_errors(size));
}

TEST_CASE("broadcast, all_gather, all_reduce_sum and barrier have no size limit", "[comm]") {
  const int size = GENERATE(1, 2, 4);
  const std::size_t bytes = GENERATE(0, 1, 65536, 65537, 1000001);
  CAPTURE(size, bytes);
  const auto errors = run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
    const int rank = group.world().rank;
    const int root = size - 1;
    std::vector<std::byte> data(bytes, static_cast<std::byte>(rank));
    const auto root_byte = [](std::size_t i) { return static_cast<std::byte>(i * 31 >> 3 & 0xFF); };
    for (std::size_t i = 0; rank == root && i < bytes; ++i) data[i] = root_byte(i);
    group.broadcast(data, root);
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data[i] != root_byte(i)) throw std::runtime_error("broadcast");
    }

    const auto text_of = [&](int of) {
      return std::string(bytes * static_cast<std::size_t>(of + 1) / 2, char('a' + of));
    };
    const auto texts = group.all_gather(text_of(rank));
    for (int peer = 0; peer < size; ++peer) {
      if (texts.at(static_cast<std::size_t>(peer)) != text_of(peer)) throw std::runtime_error("all_gather");
    }

    std::vector<double> values(bytes / 8);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element<double>(rank, i);
    group.all_reduce_sum(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != reference<double>(0, size, i)) throw std::runtime_error("all_reduce_sum");
    }
    group.barrier();
  });
  CHECK(errors == no_errors(size));
}

TEST_CASE("the arena is zero and aligned, and holds no more than was asked for", "[comm]") {
  const int size = GENERATE(1, 2);
  const auto errors = run_thread_ranks(size, ten_seconds, [&](Communicator& group) {
    const auto arena = group.allocate_arena(DType::bf16, 50000);
    if (arena->bytes() != 100000 || arena->dtype() != DType::bf16) throw std::runtime_error("size");
    if (reinterpret_cast<std::uintptr_t>(arena->data()) % 64 != 0) throw std::runtime_error("alignment");
    for (const std::byte byte : std::as_bytes(values_of<BFloat16>(*arena))) {
      if (byte != std::byte{0}) throw std::runtime_error("not zero");
    }
  });
  CHECK(errors == no_errors(size));
}

TEST_CASE("arenas may go before their group and after it, and give their memory back", "[comm]") {
  const int size = GENERATE(1, 2);
  const auto errors = run_threads(size, [run_id = fresh_run_id(), size](int rank) {
    auto group = make_communicator(local_world(rank, size, run_id), ten_seconds);
    auto kept = group->allocate_arena(DType::f32, 100);
    values_of<float>(*kept)[99] = 1;
    NoStream stream;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const auto passing = group->allocate_arena(DType::f32, 100000);
      if (values_of<float>(*passing)[99999] != 0) throw std::runtime_error("not zeroed");
      values_of<float>(*passing)[99999] = 1;
      group->all_reduce(all_of(*passing), {}, stream);
    }
    group->all_reduce(all_of(*kept), {}, stream);
    if (values_of<float>(*kept)[99] != static_cast<float>(size)) throw std::runtime_error("sum");
    group.reset();
    kept.reset();
  });
  CHECK(errors == no_errors(size));
}

TEST_CASE("ranges that no sum can be taken of are refused", "[comm]") {
  const auto refused = [](const std::function<void(Communicator&, Communicator&)>& call) {
    const auto one = make_communicator(local_world(0, 1, "one"), ten_seconds);
    const auto other = make_communicator(local_world(0, 1, "other"), ten_seconds);
    try {
      call(*one, *other);
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  NoStream stream;
  const auto range_of_100 = [&](std::int64_t first, std::int64_t count) {
    return refused([&](Communicator& group, Communicator&) {
      const auto arena = group.allocate_arena(DType::f32, 100);
      group.all_reduce({arena.get(), first, count}, {}, stream);
    });
  };
  CHECK(range_of_100(16, 84).empty());
  CHECK(range_of_100(16, 85) ==
        "all_reduce: 85 elements from 16 on are not aligned to 64 bytes or not in the arena of 100");
  CHECK_FALSE(range_of_100(15, 1).empty());
  CHECK_FALSE(range_of_100(-16, 1).empty());
  CHECK_FALSE(range_of_100(16, -1).empty());
  CHECK_FALSE(range_of_100(16, std::numeric_limits<std::int64_t>::max()).empty());
  CHECK(refused([&](Communicator& group, Communicator& other) {
          const auto arena = other.allocate_arena(DType::f32, 100);
          group.reduce_scatter(all_of(*arena), {}, stream);
        }) == "reduce_scatter: the arena is not of this group");
  CHECK(refused([&](Communicator& group, Communicator&) {
          const auto arena = group.allocate_arena(DType::i64, 100);
          group.all_gather(all_of(*arena), {}, stream);
          group.all_reduce(all_of(*arena), {}, stream);
        }) == "all_reduce: floating-point numbers only, these are i64");
}

TEST_CASE("shards are whole lines, as many on each rank or one more, and hold the range together", "[comm]") {
  const auto group = make_communicator(local_world(0, 1, "shards"), ten_seconds);
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f64);
  const auto arena = group->allocate_arena(dtype, 10000);
  const auto line = static_cast<std::int64_t>(cache_line / size_of(dtype));
  for (const std::int64_t count : {0, 1, 31, 33, 1000, 9000}) {
    for (const int ranks : {1, 2, 3, 5, 64}) {
      std::int64_t next = line;
      const std::int64_t lines = (count + line - 1) / line;
      for (int rank = 0; rank < ranks; ++rank) {
        const ArenaRange shard = shard_of({arena.get(), line, count}, rank, ranks);
        CHECK(shard.first == next);
        CHECK((shard.first % line == 0 || shard.count == 0));
        CHECK((shard.count + line - 1) / line >= lines / ranks);
        CHECK((shard.count + line - 1) / line <= lines / ranks + 1);
        next += shard.count;
      }
      CHECK(next == line + count);
    }
  }
}

TEST_CASE("timing tells who was waited for", "[comm]") {
  const auto errors = run_thread_ranks(2, ten_seconds, [&](Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1 << 18);
    NoStream stream;
    group.barrier();
    constexpr std::int64_t pause_ns = 30'000'000;
    if (group.world().rank == 1) std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
    const ExchangeTiming timing = group.all_reduce(all_of(*arena), {}, stream);
    if (group.world().rank == 0 && timing.skew_ns < pause_ns * 9 / 10) throw std::runtime_error("skew");
    if (timing.transfer_ns <= 0) throw std::runtime_error("transfer");
  });
  CHECK(errors == no_errors(2));
}
