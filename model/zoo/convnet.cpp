#include "model/zoo/zoo.h"

namespace lockstep::model {

ZooEntry convnet_entry() {
  return {.name = "convnet",
          .what = "two convolutions and two linear layers, for small images",
          .arguments = {},
          .wants =
              [](const ModelArgs&) {
                return InputSpec{.shape = {3, 28, 28}, .num_classes = 10, .target_shape = {}};
              },
          .make =
              [](const ModelArgs&, const InputSpec& input) {
                return Model{.name = "convnet", .forward = [classes = input.num_classes](Tensor x) {
                               x = relu(conv2d(x, "conv1", {.out_channels = 32, .kernel = 3, .padding = 1}));
                               x = max_pool2d(x);
                               x = relu(conv2d(x, "conv2", {.out_channels = 64, .kernel = 3, .padding = 1}));
                               x = max_pool2d(x);
                               x = relu(linear(flatten(x), "fc1", 128));
                               return linear(x, "fc2", classes);
                             }};
              }};
}

}  // namespace lockstep::model
