#include "kernels/recurrent.h"
#include "tests/unit/kernels/instruction_sets.h"

namespace lockstep::tests {
namespace {

using namespace kernels;

constexpr RecurrentSize size{.steps = 3, .rows = 5, .hidden = 37};
constexpr std::int64_t columns = RecurrentPart::columns;
constexpr std::int64_t stride = 4 * size.hidden;
const std::vector<std::int64_t> lengths{3, 2, 1, 3, 0};

constexpr std::size_t elements(std::int64_t of_step) {
  return static_cast<std::size_t>(size.rows * size.steps * of_step);
}

/// Units 16 to 28 in the second step.
RecurrentPart part() {
  return {size, DType::f32, DType::f32, 1, 16, 13, lengths.data()};
}

/// What forward's steps write, and from that what backward's write.
template <class Forward, class Backward>
std::vector<float> steps(const Loops& run, const Forward& forward, const Backward& backward) {
  constexpr std::int64_t gates = Forward::gates * size.hidden;
  const std::vector<float> pre = numbers(elements(gates), 1);
  const std::vector<float> product = numbers(static_cast<std::size_t>(size.rows * columns), 3);
  const std::vector<float> dy = numbers(elements(size.hidden), 4);
  const std::vector<float> zeros(static_cast<std::size_t>(size.hidden));
  std::vector<float> h(static_cast<std::size_t>(size.rows * stride));
  std::vector<float> c = numbers(elements(size.hidden), 5);
  std::vector<float> activations(elements(gates));
  std::vector<float> y(elements(size.hidden));
  std::vector<float> cells(elements(size.hidden));
  run(forward, part(),
      RecurrentForward{pre.data(),
                       {product.data(), columns, 16},
                       {h.data(), stride},
                       c.data(),
                       activations.data(),
                       y.data(),
                       cells.data()});
  std::vector<float> dc = numbers(elements(size.hidden), 6);
  std::vector<float> d(h.size());
  std::vector<float> dpre(elements(gates));
  run(backward, part(),
      RecurrentBackward{dy.data(),
                        backward.last ? zeros.data() : nullptr,
                        dc.data(),
                        activations.data(),
                        y.data(),
                        cells.data(),
                        c.data(),
                        {product.data(), columns, columns},
                        dc.data(),
                        {d.data(), stride},
                        dpre.data()});
  std::vector<float> all;
  for (const auto* written : {&h, &c, &activations, &y, &cells, &dc, &d, &dpre}) append(all, *written);
  return all;
}

}  // namespace

TEST_CASE("all instruction sets compute the steps of recurrent layers to the baseline's bits") {
  check_same_bits([](const Loops& run) { return steps(run, Rnn{}, RnnBackward{}); });
  check_same_bits([](const Loops& run) {
    const Rnn relu{.nonlinearity = Nonlinearity::relu};
    return steps(run, relu, RnnBackward{.forward = relu});
  });
  check_same_bits([](const Loops& run) { return steps(run, Lstm{}, LstmBackward{}); });
  check_same_bits([](const Loops& run) { return steps(run, Lstm{}, LstmBackward{.last = true}); });
}

}  // namespace lockstep::tests
