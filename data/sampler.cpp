#include "data/sampler.h"

#include <numeric>
#include <random>
#include <utility>

#include "kernels/base/division.h"
#include "kernels/base/philox.h"

namespace lockstep::data {
namespace {

/// From this size on PyTorch draws 64 bits for each position and shuffles inside out.
constexpr std::int64_t wide_draws = 0xffffffff / 20;

constexpr std::uint64_t philox_stream = std::uint64_t{0x6576} << 48;  ///< of what is evaluated

std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& order, std::int64_t total, int first,
                                    int step) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(parts_of(total - first, step)));
  for (std::int64_t i = first; i < total; i += step) {
    result.push_back(order[static_cast<std::size_t>(i % std::ssize(order))]);
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed) {
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  const auto size = static_cast<std::uint64_t>(n);
  if (n < wide_draws) {
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::uint32_t i = 0; i + 1 < size; ++i) {
      const auto ahead = static_cast<std::uint32_t>(generator()) % (static_cast<std::uint32_t>(n) - i);
      std::swap(order[i], order[i + ahead]);
    }
    return order;
  }
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t high = generator();
    const std::uint64_t draw = high << 32 | generator();
    const std::uint64_t other = draw % (i + 1);
    order[i] = order[other];
    order[other] = static_cast<std::int64_t>(i);
  }
  return order;
}

std::int64_t DistributedSampler::share_of(std::int64_t count) const {
  return drop_last ? count / replicas : parts_of(count, replicas);
}

std::int64_t DistributedSampler::size() const {
  return share_of(samples);
}

std::int64_t DistributedSampler::rest_size(std::int64_t done) const {
  return share_of(samples - done);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) const {
  if (shuffle) return torch_randperm(samples, seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  if (samples == 0) return {};
  return every_nth(order(epoch), size() * replicas, rank, replicas);
}

EpochSamples DistributedSampler::rest(std::int64_t epoch, std::int64_t done) const {
  std::vector<std::int64_t> left = order(epoch);
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(done));
  const std::int64_t dealt = rest_size(done) * replicas;
  std::vector<std::int64_t> mine = every_nth(left, dealt, rank, replicas);
  const bool padded = dealt > std::ssize(left) && dealt - replicas + rank >= std::ssize(left);
  return {std::move(mine), padded ? 1 : 0};
}

std::int64_t chosen_sample(std::int64_t place, std::int64_t count, std::int64_t set_size) {
  if (count == set_size) return place;
  const auto begin_of = [&](std::int64_t part) {
    return static_cast<std::int64_t>(static_cast<unsigned __int128>(part) *
                                     static_cast<std::uint64_t>(set_size) /
                                     static_cast<std::uint64_t>(count));
  };
  const std::int64_t begin = begin_of(place);
  const auto part_size = static_cast<std::uint64_t>(begin_of(place + 1) - begin);
  const PhiloxCounter words = Philox(0, philox_stream).block(static_cast<std::uint64_t>(place));
  const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
  return begin + static_cast<std::int64_t>(static_cast<unsigned __int128>(random) * part_size >> 64);
}

std::int64_t UnpaddedSampler::size() const {
  return rank < samples ? parts_of(samples - rank, replicas) : 0;
}

std::vector<std::int64_t> UnpaddedSampler::indices() const {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t place = rank; place < samples; place += replicas)
    result.push_back(chosen_sample(place, samples, set_size));
  return result;
}

}  // namespace lockstep::data
