#include "tests/unit/comm/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/comm/reference.h"

namespace lockstep::comm::testing {
namespace {

constexpr std::int64_t sizes[] = {0, 1, 15, 16, 17, 1023, 4097, 100003};
constexpr std::int64_t largest = 100003;

template <class T>
T rounded(float value) {
  if constexpr (is_half_type<T>) {
    T half;
    narrow(value, half);
    return half;
  } else {
    return value;
  }
}

/// Sums of these by 5 ranks are exact in every type.
float exact_element(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 3) % 17) - 8;
}

/// What rank `rank` brings to a sum.
template <class T>
T input(SumOrder order, int rank, std::size_t index) {
  return order == SumOrder::unknown ? rounded<T>(exact_element(rank, index)) : element<T>(rank, index);
}

/// What comes of it.
template <class T>
T sum(SumOrder order, int ranks, std::size_t index) {
  if (order == SumOrder::tree) return reference<T>(0, ranks, index);
  T total = input<T>(order, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    total = rounded<T>(widened(total) + widened(input<T>(order, rank, index)));
  }
  return total;
}

template <class T>
bool same_bits(const T& one, const T& other) {
  return std::memcmp(&one, &other, sizeof(T)) == 0;
}

std::size_t index_of(std::int64_t element) {
  return static_cast<std::size_t>(element);
}

/// Element i of the range becomes value(i).
template <class T, class Value>
void put(std::vector<T>& values, const ArenaRange& range, Value value) {
  for (std::int64_t i = 0; i < range.count; ++i) values[index_of(range.first + i)] = value(index_of(i));
}

template <class T>
void write(const Backend& backend, const Arena& arena, const std::vector<T>& values) {
  backend.write(arena, std::as_bytes(std::span(values)));
}

template <class T>
std::vector<T> read(const Backend& backend, const Arena& arena) {
  std::vector<T> values(index_of(arena.elements()));
  backend.read(arena, std::as_writable_bytes(std::span(values)));
  return values;
}

/// The collectives over ranges of one arena. What lies around a range must stay.
template <class T>
class Conformance {
 public:
  Conformance(const Backend& backend, DType dtype)
      : backend_(backend),
        rank_(backend.group.world().rank),
        ranks_(backend.group.world().size),
        arena_(backend.group.allocate_arena(dtype, first + largest + tail)) {
    for (std::size_t i = 0; i < index_of(largest); ++i) sums_.push_back(sum<T>(backend.order, ranks_, i));
    for (std::size_t i = 0; i < index_of(arena_->elements()); ++i) {
      fillers_.push_back(element<T>(rank_ + 100, i));
    }
  }

  void run() const {
    for (const std::int64_t count : sizes) {
      const ArenaRange range{.arena = arena_.get(), .first = first, .count = count};
      all_reduce(range);
      reduce_scatter(range);
      all_gather(range);
      all_gather_filled(range);
      in_two_phases(range);
    }
    several_ranges(1, 17);
    several_ranges(1023, 50001);
  }

 private:
  using Values = std::vector<T>;
  static constexpr std::int64_t line = 64 / sizeof(T);
  static constexpr std::int64_t first = 3 * line;
  static constexpr std::int64_t tail = 2 * line + 5;

  T own_input(std::size_t index) const { return input<T>(backend_.order, rank_, index); }
  T whole_sum(std::size_t index) const { return sums_[index]; }

  void check(const Values& expected, std::string_view what, std::int64_t count) const {
    const Values found = read<T>(backend_, *arena_);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!same_bits(found[i], expected[i])) fail(what, count, i);
    }
  }
  [[noreturn]] void fail(std::string_view what, std::int64_t count, std::size_t at) const {
    throw std::runtime_error(fmt::format("{} of {} {} from element {}, rank {} of {}: element {} is wrong",
                                         what, count, name_of(arena_->dtype()), first, rank_, ranks_, at));
  }

  void all_reduce(const ArenaRange& range) const {
    Values values = fillers_;
    put(values, range, [&](std::size_t i) { return own_input(i); });
    write(backend_, *arena_, values);
    backend_.group.all_reduce(range, {}, backend_.stream);
    put(values, range, [&](std::size_t i) { return whole_sum(i); });
    check(values, "all_reduce", range.count);
  }

  void reduce_scatter(const ArenaRange& range) const {
    Values values = fillers_;
    put(values, range, [&](std::size_t i) { return own_input(i); });
    write(backend_, *arena_, values);
    backend_.group.reduce_scatter(range, {}, backend_.stream);
    const ArenaRange own = shard_of(range, rank_, ranks_);
    const Values found = read<T>(backend_, *arena_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const bool is_outside = at < range.first || at >= range.first + range.count;
      const bool is_own = at >= own.first && at < own.first + own.count;
      const bool is_old = same_bits(found[i], values[i]);
      const bool is_sum = !is_outside && same_bits(found[i], whole_sum(i - index_of(range.first)));
      const bool is_right = is_outside ? is_old : is_own ? is_sum : is_old || is_sum;
      if (!is_right) fail("reduce_scatter", range.count, i);
    }
  }

  void all_gather(const ArenaRange& range) const {
    Values values = fillers_;
    const auto put_shard = [&](int rank) {
      const ArenaRange shard = shard_of(range, rank, ranks_);
      const std::size_t begin = index_of(shard.first - range.first);
      put(values, shard, [&](std::size_t i) { return element<T>(rank, begin + i); });
    };
    put_shard(rank_);
    write(backend_, *arena_, values);
    backend_.group.all_gather(range, {}, backend_.stream);
    for (int rank = 0; rank < ranks_; ++rank) put_shard(rank);
    check(values, "all_gather", range.count);
  }

  /// Each rank's shard says how much of it is in use: of rank 1's nothing but that, of rank 2's all.
  void all_gather_filled(const ArenaRange& range) const {
    const auto bytes_in_use = [](const ArenaRange& shard, int rank) {
      const std::uint64_t bytes = rank == 1 ? 1 : shard.bytes() / (rank == 2 ? 1 : 3);
      return shard.bytes() < sizeof(bytes) ? shard.bytes() : std::max(bytes, sizeof(bytes));
    };
    Values sent = fillers_;
    const auto put_shard = [&](int rank) {
      const ArenaRange shard = shard_of(range, rank, ranks_);
      put(sent, shard, [&](std::size_t i) { return element<T>(rank + 50, i); });
      const std::uint64_t bytes = bytes_in_use(shard, rank);
      const auto at = std::as_writable_bytes(std::span(sent)).subspan(index_of(shard.first) * sizeof(T));
      if (shard.bytes() >= sizeof(bytes)) std::memcpy(at.data(), &bytes, sizeof(bytes));
    };
    put_shard(rank_);
    write(backend_, *arena_, sent);
    backend_.group.all_gather_filled(range, {}, backend_.stream);
    for (int rank = 0; rank < ranks_; ++rank) put_shard(rank);
    const Values found = read<T>(backend_, *arena_);
    std::vector<char> is_known(found.size(), 1);
    std::fill_n(is_known.begin() + range.first, range.count, 0);
    for (int rank = 0; rank < ranks_; ++rank) {
      const ArenaRange shard = shard_of(range, rank, ranks_);
      const std::size_t bytes = bytes_in_use(shard, rank);
      for (std::size_t i = 0; i * sizeof(T) < bytes; ++i) is_known[index_of(shard.first) + i] = 1;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (is_known[i] && !same_bits(found[i], sent[i])) fail("all_gather_filled", range.count, i);
    }
  }

  /// With values whose sums are rounded, whatever the order.
  void in_two_phases(const ArenaRange& range) const {
    Values values = fillers_;
    put(values, range, [&](std::size_t i) { return element<T>(rank_, i); });
    write(backend_, *arena_, values);
    backend_.group.all_reduce(range, {}, backend_.stream);
    const Values at_once = read<T>(backend_, *arena_);
    check_same_on_all_ranks(at_once, range);
    write(backend_, *arena_, values);
    backend_.group.reduce_scatter(range, {}, backend_.stream);
    backend_.group.all_gather(range, {}, backend_.stream);
    const Values found = read<T>(backend_, *arena_);
    check_same_on_all_ranks(found, range);
    // NCCL adds an odd shard, which is for one rank, in another order than what is for all of them. Of two
    // ranks there is one sum.
    const bool in_any_order = backend_.order == SumOrder::unknown && ranks_ > 2;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t index = i - index_of(range.first);
      const bool is_sum = i >= index_of(range.first) && index < index_of(range.count);
      const bool is_right = in_any_order && is_sum ? are_sums_alike(found[i], at_once[i], ranks_, index)
                                                   : same_bits(found[i], at_once[i]);
      if (!is_right) fail("reduce_scatter and all_gather", range.count, i);
    }
  }
  void check_same_on_all_ranks(const Values& values, const ArenaRange& range) const {
    const auto bytes = std::as_bytes(std::span(values).subspan(index_of(range.first), index_of(range.count)));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string mine = std::to_string(std::hash<std::string_view>()(text));
    for (const std::string& theirs : backend_.group.all_gather(mine)) {
      if (theirs != mine) fail("all_reduce, whose bits differ between ranks,", range.count, 0);
    }
  }

  /// Two ranges of the arena, out of order, and between them a control block, an arena of its own.
  void several_ranges(std::int64_t one, std::int64_t other) const {
    const auto control = backend_.group.allocate_arena(DType::f32, 16);
    const std::int64_t second = (first + one + line - 1) / line * line + line;
    const ArenaRange ranges[] = {{arena_.get(), second, other}, all_of(*control), {arena_.get(), first, one}};
    Values values = fillers_;
    std::vector<float> controls(16);
    for (const int at : {0, 2}) put(values, ranges[at], [&](std::size_t i) { return own_input(i); });
    put(controls, ranges[1], [&](std::size_t i) { return input<float>(backend_.order, rank_, i); });
    write(backend_, *arena_, values);
    write(backend_, *control, controls);
    backend_.group.all_reduce(ranges, {}, backend_.stream);
    for (const int at : {0, 2}) put(values, ranges[at], [&](std::size_t i) { return whole_sum(i); });
    put(controls, ranges[1], [&](std::size_t i) { return sum<float>(backend_.order, ranks_, i); });
    check(values, "all_reduce of several ranges,", one + other);
    if (read<float>(backend_, *control) != controls) fail("all_reduce of a control block beside", other, 0);
  }

  const Backend& backend_;
  int rank_;
  int ranks_;
  std::unique_ptr<Arena> arena_;
  Values sums_;
  Values fillers_;  ///< around a range, and in the others' shards before an all_gather
};

/// One rank alone has a text, which is longer than a message of any backend.
void check_long_text(Communicator& group) {
  std::string text(std::size_t{17} << 20, 'x');
  for (std::size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>(i >> 10);
  std::vector<std::string> expected(index_of(group.world().size));
  expected.back() = text;
  const bool has_text = group.world().rank == group.world().size - 1;
  if (group.all_gather(has_text ? text : "") != expected)
    throw std::runtime_error("all_gather of a long text");
}

}  // namespace

Backend host_backend(Communicator& group, kernels::Stream& stream, SumOrder order) {
  return {.group = group,
          .stream = stream,
          .order = order,
          .write =
              [](const Arena& arena, std::span<const std::byte> bytes) {
                std::memcpy(arena.data(), bytes.data(), bytes.size());
              },
          .read = [](const Arena& arena,
                     std::span<std::byte> bytes) { std::memcpy(bytes.data(), arena.data(), bytes.size()); }};
}

void check_conformance(const Backend& backend) {
  Conformance<float>(backend, DType::f32).run();
  Conformance<BFloat16>(backend, DType::bf16).run();
  Conformance<Float16>(backend, DType::f16).run();
  check_long_text(backend.group);
}

}  // namespace lockstep::comm::testing
