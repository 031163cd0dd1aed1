#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument hidden{.key = "hidden", .otherwise = 128, .range = feature_counts};

}  // namespace

/// nn.Sequential(Flatten(), Linear(I, hidden), ReLU(), Linear(hidden, classes)): hence the names 1 and 3.
ZooEntry mlp_entry() {
  return {.name = "mlp",
          .what = "two linear layers with 128 hidden units (--model-args hidden=)",
          .arguments = {hidden},
          .wants =
              [](const ModelArgs&) {
                return InputSpec{.shape = {1, 28, 28}, .num_classes = 10, .target_shape = {}};
              },
          .make =
              [](const ModelArgs& args, const InputSpec& input) {
                return Model{.name = "mlp",
                             .forward = [units = hidden.of(args), classes = input.num_classes](Tensor x) {
                               x = relu(linear(flatten(x), "1", units));
                               return linear(x, "3", classes);
                             }};
              }};
}

}  // namespace lockstep::model
