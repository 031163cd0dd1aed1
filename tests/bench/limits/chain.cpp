#include "tests/bench/limits/chain.h"

#include <array>
#include <span>
#include <vector>

#include "kernels/pointwise.h"
#include "tests/gpu/shares/timing.h"

namespace lockstep::bench {
namespace {

using namespace kernels;

const Shape full{16, 32, 128, 128};
const Shape channels{32, 1, 1};
const Shape row{128};

struct Link {
  PointwiseFunction function;
  const Shape* other;  ///< its second operand; null: it has one
};
const Link links[] = {{PointwiseFunction::add, &channels},
                      {PointwiseFunction::relu, nullptr},
                      {PointwiseFunction::mul, &row},
                      {PointwiseFunction::add, &full}};

/// From x and `others` to a tensor as x.
double milliseconds_of(Device& device, const Pointwise& spec, const std::vector<const Shape*>& others) {
  const auto tensor = [](const Shape& shape) {
    return TensorDesc{DType::f32, shape, Layout::row_major(shape)};
  };
  KernelIo io{{tensor(full)}, {tensor(full)}};
  for (const Shape* other : others) {
    if (other != nullptr) io.inputs.push_back(tensor(*other));
  }
  return 1e3 * shares::seconds_of_launch(device, *kernel_for(device, spec, io), io, {});
}

double apart(Device& device) {
  double sum = 0;
  for (const Link& link : links) {
    sum += milliseconds_of(device, Pointwise::single(link.function), {link.other});
  }
  return sum;
}

double joined(Device& device) {
  Pointwise chain = Pointwise::single(links[0].function);
  std::vector<const Shape*> others{links[0].other};
  for (const Link& link : std::span(links).subspan(1)) {
    std::vector<Pointwise::Operand> read{Pointwise::result_of(chain.step_count - 1U)};
    if (link.other != nullptr) read.push_back(kernels::new_input);
    others.push_back(link.other);
    constexpr std::array kept{false};
    chain = join(chain, Pointwise::single(link.function), read, kept).value();
  }
  return milliseconds_of(device, chain, others);
}

}  // namespace

ChainTimes measure_chain(Device& device) {
  return {.joined_ms = joined(device),
          .apart_ms = apart(device),
          .gigabytes = 3e-9 * static_cast<double>(full.elements()) * sizeof(float)};
}

}  // namespace lockstep::bench
