// A trainer of one's own: layers composed to a network, a data set, and all of trainer's options.
#include <array>
#include <cmath>
#include <cstring>

#include "model/layers.h"
#include "runtime/commands/commands.h"

using namespace lockstep;

/// Points spread evenly over a square; class 1 lies within the circle of half its area.
struct Circle : data::Dataset {
  explicit Circle(int first_point) : first(first_point) {}
  std::int64_t size() const override { return 8192; }
  const data::SampleSpec& spec() const override { return sample; }
  void get(std::int64_t i, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const auto n = static_cast<double>(first + i);
    const std::array point{static_cast<float>(std::remainder(n * 0.7548776662, 1)),
                           static_cast<float>(std::remainder(n * 0.5698402910, 1))};
    const std::int64_t inside = point[0] * point[0] + point[1] * point[1] < 0.159155F;
    std::memcpy(input.data(), point.data(), sizeof point);
    std::memcpy(target.data(), &inside, sizeof inside);
  }

  std::int64_t first;
  data::SampleSpec sample{.input_shape = {2}, .num_classes = 2};
};

model::Tensor network(model::Tensor x) {
  x = model::relu(model::linear(x, "hidden1", 32));
  x = model::relu(model::linear(x, "hidden2", 32));
  return model::linear(x, "out", 2);
}

int main(int argc, char** argv) {
  return runtime::train_main(argc, argv, [](const runtime::Options&) {
    return runtime::TrainingTask{.model = {.name = "circle", .forward = network},
                                 .input = {.shape = {2}, .num_classes = 2},
                                 .train_set = std::make_shared<Circle>(0),
                                 .test_set = std::make_shared<Circle>(8192),
                                 .dataset_name = "disc"};
  });
}
