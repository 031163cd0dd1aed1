#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument hidden{.key = "hidden", .otherwise = 128, .range = feature_counts};
const IntegerArgument num_classes = class_count(10);

}  // namespace

/// nn.Sequential(Flatten(), Linear(I, hidden), ReLU(), Linear(hidden, classes)): hence the names 1 and 3.
ZooEntry mlp_entry() {
  return {
      .name = "mlp",
      .what = "two linear layers with a relu between them",
      .arguments = {hidden, num_classes},
      .wants =
          [](const ModelArgs& args) {
            return InputSpec{.shape = {1, 28, 28}, .num_classes = num_classes.of(args), .target_shape = {}};
          },
      .make =
          [](const ModelArgs& args, const InputSpec& input) {
            return Model{.name = "mlp",
                         .forward = [units = hidden.of(args), classes = input.num_classes](Tensor x) {
                           x = relu(linear(flatten(x), "1", units));
                           return linear(x, "3", classes);
                         }};
          },
      .example = "--dataset fashion-mnist"};
}

}  // namespace lockstep::model
