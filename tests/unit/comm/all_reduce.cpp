#include <cstdint>
#include <cstring>

#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

/// Values of many magnitudes, so that another order of additions gives other bits.
template <class T>
T element(int rank, std::size_t index) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) << 40 | index) * 0x9E3779B97F4A7C15;
  mixed ^= mixed >> 29;
  const auto mantissa = static_cast<double>(mixed % 1000003) - 500000.0;
  const double scales[] = {1e-6, 1.0, 3e5, 7e-2};
  return static_cast<T>(mantissa * scales[(index + static_cast<std::size_t>(rank)) % 4]);
}

/// The tree of the design, one element at a time: the left subtree holds the greatest power of two of ranks.
template <class T>
T reference(int first, int count, std::size_t index) {
  if (count == 1) return element<T>(first, index);
  int left = 1;
  while (left * 2 < count) left *= 2;
  return reference<T>(first, left, index) + reference<T>(first + left, count - left, index);
}

template <class T>
DType dtype_of() {
  return sizeof(T) == 4 ? DType::f32 : DType::f64;
}

/// Every rank reduces `count` elements at `offset` and compares all bits with the reference.
template <class T>
void check_sum(Communicator& group, std::size_t offset, std::size_t count) {
  const auto arena = group.allocate_arena(offset + count * sizeof(T) + 64);
  T* values = reinterpret_cast<T*>(arena.data() + offset);
  const World& world = group.world();
  NoStream stream;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < count; ++i) values[i] = element<T>(world.rank, i);
    group.all_reduce(offset, count, dtype_of<T>(), {.bucket = 0, .first_parameter = "fc1.weight"}, stream);
    for (std::size_t i = 0; i < count; ++i) {
      const T expected = reference<T>(0, world.size, i);
      if (std::memcmp(&values[i], &expected, sizeof(T)) != 0) {
        throw std::runtime_error("element " + std::to_string(i) + " of " + std::to_string(count));
      }
    }
    for (std::size_t i = offset + count * sizeof(T); i < arena.size(); ++i) {
      if (arena[i] != std::byte{0}) throw std::runtime_error("wrote behind the range");
    }
  }
}

const CommOptions ten_seconds{.timeout = Seconds(10)};

}  // namespace

TEST_CASE("sums have the reference tree's bits on every rank", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const std::size_t count = GENERATE(0, 1, 4, 15, 17, 1000, 4096, 4097, 16385, 100003);
  CAPTURE(size, count);
  // One rank's sum is what it had.
  const auto errors =
      run_thread_ranks(size, ten_seconds, [&](Communicator& group) { check_sum<float>(group, 128, count); });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}
