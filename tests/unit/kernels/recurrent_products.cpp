#include "kernels/cpu/recurrent_products.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/skip.h"
#include "tests/unit/kernels/tile_sums.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

std::vector<BFloat16> halves_of(const Values& values) {
  std::vector<BFloat16> halves(values.data.size());
  for (std::size_t i = 0; i < halves.size(); ++i) narrow(static_cast<float>(values.data[i]), halves[i]);
  return halves;
}

/// Each sum of `size.inputs` terms. Weights are (outputs, inputs) forward, (inputs, outputs) backward.
Wanted wanted_product(const StepProduct::Size& size, const Values& a, const Values& weights) {
  const Shape shape{size.rows, size.outputs};
  const std::vector<double> zeros(static_cast<std::size_t>(shape.elements()));
  Wanted wanted{{shape, zeros}, {shape, zeros}, size.inputs};
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const std::int64_t output = i % size.outputs;
    for (std::int64_t k = 0; k < size.inputs; ++k) {
      const std::int64_t at = size.forward ? output * size.inputs + k : k * size.outputs + output;
      const double product = a.data[static_cast<std::size_t>(i / size.outputs * size.inputs + k)] *
                             weights.data[static_cast<std::size_t>(at)];
      wanted.sums.data[static_cast<std::size_t>(i)] += product;
      wanted.magnitudes.data[static_cast<std::size_t>(i)] += std::fabs(product);
    }
  }
  return wanted;
}

/// A launch's packed weights, and products of several steps, each of which must be the same.
Values run_steps(const StepProduct::Size& size, const std::vector<BFloat16>& a,
                 const std::vector<BFloat16>& weights) {
  const auto product = step_product(onednn::Context{}, size);
  const auto workspace = device().allocate(product->workspace_bytes());
  std::memset(workspace->data(), 0xFF, product->workspace_bytes());
  const auto bound = product->bind(weights.data(), static_cast<std::byte*>(workspace->data()));
  const auto stream = device().make_stream();
  bound.pack->launch(*stream);
  std::copy(a.begin(), a.end(), bound.factors);
  const std::int64_t count = size.rows * size.outputs;
  std::vector<float> first;
  for (int step = 0; step < 3; ++step) {
    std::fill_n(bound.result, count, std::numeric_limits<float>::quiet_NaN());
    bound.multiply->launch(*stream);
    const std::vector<float> got(bound.result, bound.result + count);
    if (step == 0) first = got;
    REQUIRE(got == first);
  }
  return {{size.rows, size.outputs}, {first.begin(), first.end()}};
}

}  // namespace

TEST_CASE("products of a recurrent layer's steps in bf16") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  const std::int64_t rows = GENERATE(1, 32, 33);
  const std::int64_t hidden = GENERATE(32, 160, 40);  // one square, more than one after another, no tiles
  const bool forward = GENERATE(true, false);
  const StepProduct::Size size{rows, forward ? hidden : 4 * hidden, forward ? 4 * hidden : hidden, forward};
  CAPTURE(rows, hidden, forward);
  const Values a = numbers({rows, size.inputs}, 1);
  const Values weights = numbers({4 * hidden, hidden}, 2);
  const Wanted wanted = wanted_product(size, a, weights);
  const Values alone = with_threads(1, [&] { return run_steps(size, halves_of(a), halves_of(weights)); });
  require_sums(alone, wanted, 0);
  for (const int threads : {2, 5}) {
    const auto run = [&] { return run_steps(size, halves_of(a), halves_of(weights)); };
    CHECK(with_threads(threads, run).data == alone.data);
  }
}
