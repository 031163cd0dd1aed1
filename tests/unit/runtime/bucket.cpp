#include "runtime/plan/bucket.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using testing::bucket_for_each;
using testing::classifier;
using testing::plan_of;
using testing::small_net;

TEST_CASE("bucket: in order of readiness, closed by the parameter that reaches the limit") {
  const auto device = kernels::make_cpu_device(1);
  const Plan one = plan_of(classifier(small_net), *device);
  REQUIRE(one.arena.buckets.size() == 1);
  CHECK(one.arena.slices.front().name == "fc2.weight");
  CHECK(one.arena.slices.back().name == "conv.bias");
  CHECK(one.arena.buckets[0].count == one.arena.elements);

  const Plan many = plan_of(classifier(small_net), *device, {.buckets = bucket_for_each});
  CHECK(many.arena.buckets.size() == many.arena.slices.size());
}

TEST_CASE("bucket: an eighth of all gradients closes one that the limit would let grow") {
  const auto device = kernels::make_cpu_device(1);
  const auto sizes = [&](std::size_t first_bytes) {
    const Plan plan =
        plan_of(classifier(small_net), *device, {.buckets = {.first_bytes = first_bytes, .bytes = 1 << 20}});
    std::vector<std::int64_t> counts;
    for (const Bucket& bucket : plan.arena.buckets) counts.push_back(bucket.count);
    return counts;
  };
  const std::vector<std::int64_t> small = sizes(1);
  REQUIRE(small.size() > 2);
  const std::int64_t all = std::accumulate(small.begin(), small.end(), std::int64_t{0});
  for (std::size_t i = 1; i + 1 < small.size(); ++i) CHECK(small[i] >= all / 8);
  CHECK(sizes(static_cast<std::size_t>(all) * 4 / 2).size() == 2);
}

TEST_CASE("bucket: a rank's shard of a bucket is a slice, whatever the world") {
  const auto device = kernels::make_cpu_device(1);
  const int ranks = GENERATE(1, 2, 3, 8);
  BucketLimits limits = bucket_for_each;
  limits.ranks = ranks;
  const Plan plan = plan_of(classifier(small_net), *device, {.buckets = limits});
  std::int64_t end = 0;
  for (const Bucket& bucket : plan.arena.buckets) {
    CHECK(bucket.first == end);
    CHECK(bucket.count * 4 % (64 * ranks) == 0);
    end += bucket.count;
  }
  CHECK(end == plan.arena.elements);
  for (const ArenaSlice& slice : plan.arena.slices) {
    CHECK(slice.first * 4 % 64 == 0);
    CHECK(slice.first + slice.count <= plan.arena.elements);
  }
}

TEST_CASE("bucket: what decays comes first where only matrices do, in the same buckets") {
  const auto device = kernels::make_cpu_device(1);
  const std::size_t bytes = GENERATE(std::size_t{1}, std::size_t{600}, std::size_t{1} << 20);
  BucketLimits limits{.first_bytes = bytes, .bytes = bytes, .ranks = 2};
  const ArenaPlan all = assign_buckets(plan_of(classifier(small_net), *device).graph, limits);
  limits.decays_matrices_only = true;
  const Plan plan = plan_of(classifier(small_net), *device, {.buckets = limits});
  REQUIRE(plan.arena.buckets.size() == all.buckets.size());
  for (std::size_t i = 0; i < all.buckets.size(); ++i) {
    const Bucket& bucket = plan.arena.buckets[i];
    CHECK(bucket.first == all.buckets[i].first);
    CHECK(bucket.count == all.buckets[i].count);
    CHECK(all.buckets[i].decayed == all.buckets[i].count);
    const auto begin = std::ranges::find(plan.arena.slices, bucket.first, &ArenaSlice::first);
    REQUIRE(begin != plan.arena.slices.end());
    CHECK(bucket.first_parameter == begin->name);
    for (const ArenaSlice& slice : plan.arena.slices) {
      if (slice.first < bucket.first || slice.first >= bucket.first + bucket.count) continue;
      CHECK((slice.first < bucket.first + bucket.decayed) == slice.name.ends_with("weight"));
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
