#include "runtime/plan/signature.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using testing::bucket_for_each;
using testing::classifier;
using testing::images;
using testing::plan_of;
using testing::small_net;

TEST_CASE("signature: ranks that place, pad or type their arenas differently are told apart") {
  const auto device = kernels::make_cpu_device(1);
  const auto signature = [&](const BucketLimits& limits) {
    return exchange_signature(plan_of(classifier(small_net), *device, {.buckets = limits}), *device, {});
  };
  BucketLimits of_three = bucket_for_each;
  of_three.ranks = 3;
  CHECK(signature(bucket_for_each) == signature(bucket_for_each));
  CHECK(signature(bucket_for_each) != signature(of_three));
  CHECK(signature(bucket_for_each) != signature({}));
  const std::string elements = std::to_string(plan_of(classifier(small_net), *device).arena.elements);
  for (const std::string& entry :
       {std::string("parameter fc2.weight f32 10x6 at element 0 "), std::string(" layout plain\n"),
        "bucket at element 0 of " + elements + " with the control block\n",
        "arenas of " + elements + " f32\n", std::string("control block of 16 f32\n")}) {
    CHECK_THAT(signature({}), tests::contains(entry));
  }
}

TEST_CASE("signature: ranks that differ in the precision of products are told apart") {
  const auto device = kernels::make_cpu_device(1);
  const auto signature = [&](kernels::MatmulPrecision precision) {
    const Plan plan = make_plan(classifier(small_net), images, {.key = {.batch = 4}}, *device,
                                {.matmul_precision = precision});
    return exchange_signature(plan, *device, {});
  };
  CHECK_THAT(signature(kernels::MatmulPrecision::high), tests::contains("matmul precision high\n"));
  CHECK(signature(kernels::MatmulPrecision::high) != signature(kernels::MatmulPrecision::highest));
}

}  // namespace
}  // namespace lockstep::runtime
