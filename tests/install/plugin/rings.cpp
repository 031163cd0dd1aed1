// A plugin of one's own: a data set, a model, and an op that the model uses.
#include "runtime/plugin/plugin.h"

#include <array>
#include <cmath>
#include <cstring>

#include "softsign.h"

using namespace lockstep;

namespace {

/// Points spread evenly over a square; class 1 lies outside the middle disc.
struct Rings : data::Dataset {
  explicit Rings(int first_point) : first(first_point) {}
  std::int64_t size() const override { return 8192; }
  const data::SampleSpec& spec() const override { return sample; }
  void get(std::int64_t i, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto n = static_cast<double>(first + i);
    const std::array point{static_cast<float>(std::remainder(n * 0.7548776662, 1)),
                           static_cast<float>(std::remainder(n * 0.5698402910, 1))};
    const std::int64_t ring = static_cast<std::int64_t>(std::hypot(point[0], point[1]) / 0.35F) % 2;
    std::memcpy(input.data(), point.data(), sizeof point);
    std::memcpy(target.data(), &ring, sizeof ring);
  }

  int first;
  data::SampleSpec sample{.input_shape = {2}, .num_classes = 2};
};

data::SampleSpec sample_spec(const data::DatasetOptions&) {
  return Rings(0).spec();
}

data::DatasetPtr open(const data::DatasetOptions&, data::Split split) {
  return std::make_shared<Rings>(split == data::Split::train ? 0 : 8192);
}

const model::RealArgument slope{.key = "slope", .otherwise = 1, .range = {0, 100}};

model::InputSpec wants(const model::ModelArgs&) {
  return {.shape = {2}, .num_classes = 2, .target_shape = {}};
}

model::Model make(const model::ModelArgs& args, const model::InputSpec& input) {
  return {.name = "rings_mlp", .forward = [s = slope.of(args), classes = input.num_classes](model::Tensor x) {
            x = softsign(model::linear(x, "hidden1", 32), s);
            x = softsign(model::linear(x, "hidden2", 32), s);
            return model::linear(x, "out", classes);
          }};
}

void add_to(runtime::Registry& registry) {
  registry.add_dataset({.name = "rings", .what = "points on two rings", .open = open, .spec = sample_spec});
  registry.add_model({.name = "rings_mlp",
                      .what = "two hidden layers with softsign (--model-args slope=)",
                      .arguments = {slope},
                      .wants = wants,
                      .make = make});
  registry.add_op({.name = "softsign", .what = "x / (1 + slope |x|)", .plugin = ""});
}

}  // namespace

LOCKSTEP_PLUGIN("rings", add_to)
