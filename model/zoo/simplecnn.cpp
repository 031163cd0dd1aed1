#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument num_classes = class_count(10);

}  // namespace

ZooEntry simplecnn_entry() {
  return {
      .name = "simplecnn",
      .what = "one convolution and one linear layer, for tiny images",
      .arguments = {num_classes},
      .wants =
          [](const ModelArgs& args) {
            return InputSpec{.shape = {3, 14, 14}, .num_classes = num_classes.of(args), .target_shape = {}};
          },
      .make =
          [](const ModelArgs&, const InputSpec& input) {
            return Model{.name = "simplecnn", .forward = [classes = input.num_classes](Tensor x) {
                           x = relu(conv2d(x, "conv1", {.out_channels = 16, .kernel = 3, .padding = 1}));
                           return linear(flatten(max_pool2d(x)), "fc", classes);
                         }};
          },
      .example = "--dataset fashion-mnist"};
}

}  // namespace lockstep::model
