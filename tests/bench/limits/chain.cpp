#include <array>

#include "kernels/pointwise.h"
#include "tests/bench/limits/step.h"

// A chain of pointwise ops over channels, rows and a residual, as one kernel and as one for each.
namespace lockstep::bench {
namespace {

using kernels::Pointwise;
using kernels::PointwiseFunction;

const Shape full{16, 32, 128, 128};
const Shape channels{32, 1, 1};
const Shape row{128};

struct Link {
  const char* name;
  PointwiseFunction function;
  const Shape* other;  ///< its second operand; null: it has one
};
const Link links[] = {{"add channels", PointwiseFunction::add, &channels},
                      {"relu", PointwiseFunction::relu, nullptr},
                      {"mul row", PointwiseFunction::mul, &row},
                      {"add residual", PointwiseFunction::add, &full}};

}  // namespace

Step chain_apart(kernels::Device& device) {
  Step step(device);
  Tensor* x = step.plain(full);
  for (const Link& link : links) {
    std::vector<Tensor*> in{x};
    if (link.other != nullptr) in.push_back(step.plain(*link.other));
    x = step.plain(full);
    step.add(link.name, Pointwise::single(link.function), std::move(in), {x});
  }
  return step;
}

Step chain_joined(kernels::Device& device) {
  Step step(device);
  Pointwise chain = Pointwise::single(links[0].function);
  std::vector<Tensor*> in{step.plain(full), step.plain(*links[0].other)};
  for (const Link& link : std::span(links).subspan(1)) {
    std::vector<Pointwise::Operand> read{Pointwise::result_of(chain.step_count - 1U)};
    if (link.other != nullptr) {
      read.push_back(kernels::new_input);
      in.push_back(step.plain(*link.other));
    }
    constexpr std::array kept{false};
    chain = join(chain, Pointwise::single(link.function), read, kept).value();
  }
  step.add(chain.title(), chain, std::move(in), {step.plain(full)});
  return step;
}

double chain_gigabytes() {
  return 3e-9 * static_cast<double>(full.elements()) * sizeof(float);
}

}  // namespace lockstep::bench
