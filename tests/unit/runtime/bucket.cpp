#include "runtime/plan/bucket.h"

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

}  // namespace
}  // namespace lockstep::runtime
