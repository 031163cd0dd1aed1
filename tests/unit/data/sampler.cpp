#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include "tests/support/catch.h"

using namespace lockstep::data;
using Indices = std::vector<std::int64_t>;

TEST_CASE("randperm is PyTorch's") {
  CHECK(torch_randperm(10, 0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(torch_randperm(10, 1) == Indices{5, 6, 1, 2, 0, 8, 9, 3, 7, 4});
  CHECK(torch_randperm(10, 42) == Indices{2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
  CHECK(torch_randperm(1, 0) == Indices{0});
  CHECK(torch_randperm(0, 0).empty());
}

TEST_CASE("the distributed sampler gives what PyTorch's gives") {
  std::ifstream goldens(SAMPLER_GOLDENS);
  int cases = 0;
  DistributedSampler sampler;
  std::int64_t epoch = 0, size = 0, first = 0, last = 0;
  std::uint64_t hash = 0;
  while (goldens >> sampler.samples >> sampler.replicas >> sampler.seed >> epoch >> sampler.shuffle >>
         sampler.drop_last >> size >> first >> last >> hash) {
    CAPTURE(sampler.samples, sampler.replicas, sampler.seed, epoch, sampler.shuffle, sampler.drop_last);
    std::uint64_t folded = 0;
    Indices indices;
    for (sampler.rank = 0; sampler.rank < sampler.replicas; ++sampler.rank) {
      indices = sampler.indices(epoch);
      CHECK(std::ssize(indices) == sampler.size());
      for (const std::int64_t index : indices) {
        folded = folded * 6364136223846793005u + static_cast<std::uint64_t>(index) + 1;
      }
    }
    CHECK(std::ssize(indices) == size);
    CHECK((indices.empty() ? -1 : indices.front()) == first);
    CHECK((indices.empty() ? -1 : indices.back()) == last);
    CHECK(folded == hash);
    ++cases;
  }
  CHECK(cases == 243);
}

TEST_CASE("the exact sampler gives every sample once, whatever the world size") {
  for (const std::int64_t samples : {0, 1, 2, 7, 64, 1000}) {
    for (const int replicas : {1, 2, 3, 8, 70}) {
      Indices all;
      for (int rank = 0; rank < replicas; ++rank) {
        const UnpaddedSampler sampler{samples, replicas, rank};
        const Indices mine = sampler.indices();
        CHECK(std::ssize(mine) == sampler.size());
        all.insert(all.end(), mine.begin(), mine.end());
      }
      std::sort(all.begin(), all.end());
      Indices expected(static_cast<std::size_t>(samples));
      std::iota(expected.begin(), expected.end(), std::int64_t{0});
      CHECK(all == expected);
    }
  }
}

TEST_CASE("a part of a set is spread over it, the same for any world size") {
  for (const auto& [samples, set_size] : {std::pair<std::int64_t, std::int64_t>{1, 7},
                                          {4, 32},
                                          {9, 10},
                                          {1000, 50000},
                                          {3, std::int64_t{1} << 62}}) {
    CAPTURE(samples, set_size);
    Indices all(static_cast<std::size_t>(samples));
    for (const int replicas : {1, 3}) {
      for (int rank = 0; rank < replicas; ++rank) {
        const Indices mine = UnpaddedSampler{samples, replicas, rank, set_size}.indices();
        for (std::size_t i = 0; i < mine.size(); ++i) {
          std::int64_t& chosen = all[i * static_cast<std::size_t>(replicas) + static_cast<std::size_t>(rank)];
          if (replicas == 1) chosen = mine[i];
          CHECK(chosen == mine[i]);
        }
      }
    }
    for (std::int64_t place = 0; place < samples; ++place) {
      const double part = static_cast<double>(set_size) / static_cast<double>(samples);
      const auto chosen = static_cast<double>(all[static_cast<std::size_t>(place)]);
      CHECK(chosen >= std::floor(static_cast<double>(place) * part));
      CHECK(chosen < static_cast<double>(place + 1) * part);
    }
  }
  // Classes that take turns are all there.
  std::set<std::int64_t> classes;
  for (std::int64_t place = 0; place < 100; ++place) classes.insert(chosen_sample(place, 100, 1000) % 10);
  CHECK(classes.size() == 10);
}

TEST_CASE("the rest of an epoch, dealt to any number of ranks, has each of its samples once") {
  for (const std::int64_t done : {24, 96, 99}) {
    for (const int replicas : {1, 2, 3, 8}) {
      const auto rank_of = [&](int rank) { return DistributedSampler{100, replicas, rank, true, 5}; };
      const Indices whole = DistributedSampler{100, 1, 0, true, 5}.indices(2);
      Indices dealt(static_cast<std::size_t>(rank_of(0).rest_size(done) * replicas), -1);
      for (int rank = 0; rank < replicas; ++rank) {
        const EpochSamples mine = rank_of(rank).rest(2, done);
        REQUIRE(std::ssize(mine.indices) == rank_of(rank).rest_size(done));
        for (std::int64_t i = 0; i < std::ssize(mine.indices) - mine.padding; ++i) {
          dealt[static_cast<std::size_t>(i * replicas + rank)] = mine.indices[static_cast<std::size_t>(i)];
        }
        // Batch norm sees the row that fills up: a sample of the rest again, as PyTorch's sampler does, never
        // zeros.
        if (mine.padding == 1) {
          const std::int64_t place = (std::ssize(mine.indices) - 1) * replicas + rank;
          CHECK(mine.indices.back() == whole[static_cast<std::size_t>(done + place % (100 - done))]);
        }
        CHECK((rank > 0 || mine.padding == 0));  // its running statistics are those that are kept
      }
      // In turns, in the epoch's order; padding is at the end alone.
      std::erase(dealt, -1);
      CHECK(dealt == Indices(whole.begin() + done, whole.end()));
    }
  }
  DistributedSampler dropping{100, 3, 2, true, 5, true};
  CHECK(dropping.rest(0, 92).indices.size() == 2);
  CHECK(dropping.rest(0, 92).padding == 0);
}
