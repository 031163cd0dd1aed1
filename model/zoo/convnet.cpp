#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument num_classes = class_count(10);

Tensor stage(Tensor x, const char* name, std::int64_t channels) {
  return max_pool2d(relu(conv2d(x, name, {.out_channels = channels, .kernel = 3, .padding = 1})));
}

}  // namespace

ZooEntry convnet_entry() {
  return {
      .name = "convnet",
      .what = "two convolutions and two linear layers, for small images",
      .arguments = {num_classes},
      .wants =
          [](const ModelArgs& args) {
            return InputSpec{.shape = {3, 28, 28}, .num_classes = num_classes.of(args), .target_shape = {}};
          },
      .make =
          [](const ModelArgs&, const InputSpec& input) {
            return Model{.name = "convnet", .forward = [classes = input.num_classes](Tensor x) {
                           x = segment(x, [](Tensor in) { return stage(in, "conv1", 32); });
                           x = segment(x, [](Tensor in) { return stage(in, "conv2", 64); });
                           x = relu(linear(flatten(x), "fc1", 128));
                           return linear(x, "fc2", classes);
                         }};
          },
      .example = "--dataset fashion-mnist"};
}

}  // namespace lockstep::model
