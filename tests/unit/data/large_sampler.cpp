#include "data/sampler.h"

#include "tests/support/catch.h"

using namespace lockstep::data;

TEST_CASE("randperm is PyTorch's on both sides of where it begins to draw 64 bits") {
  // torch.randperm(size, generator=torch.Generator().manual_seed(5)) of PyTorch 2.15; `sum` is that of index
  // times place, from 1, in 64 bits.
  struct Golden {
    std::int64_t size, first, second, last;
    std::uint64_t sum;
  };
  const auto golden = GENERATE(Golden{214748363, 94459959, 22248453, 186880338, 12389279107829173940U},
                               Golden{214748364, 91252029, 200188117, 61735368, 10231313895889415780U});
  const std::vector<std::int64_t> order = torch_randperm(golden.size, 5);
  std::uint64_t sum = 0;
  for (std::uint64_t place = 0; const std::int64_t index : order)
    sum += static_cast<std::uint64_t>(index) * ++place;
  REQUIRE(std::ssize(order) == golden.size);
  CHECK(order[0] == golden.first);
  CHECK(order[1] == golden.second);
  CHECK(order.back() == golden.last);
  CHECK(sum == golden.sum);
}
