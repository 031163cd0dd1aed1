#include <array>

#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument num_classes = class_count(1000);

struct Variant {
  const char* name;
  const char* what;
  std::array<std::int64_t, 4> blocks;  ///< of layer1 to layer4
  bool bottleneck;
  const char* example;
};

constexpr Variant resnet18{.name = "resnet18",
                           .what = "18 layers in residual blocks of two 3x3 convolutions, torchvision's",
                           .blocks = {2, 2, 2, 2},
                           .bottleneck = false,
                           .example = "--dataset synthetic --batch-size 16"};
constexpr Variant resnet34{.name = "resnet34",
                           .what = "34 layers in residual blocks of two 3x3 convolutions, torchvision's",
                           .blocks = {3, 4, 6, 3},
                           .bottleneck = false,
                           .example = "--dataset synthetic --batch-size 16"};
constexpr Variant resnet50{.name = "resnet50",
                           .what = "50 layers in bottleneck blocks (stride in the 3x3), torchvision's",
                           .blocks = {3, 4, 6, 3},
                           .bottleneck = true,
                           .example = "--dataset synthetic --batch-size 8"};

Tensor convolution(Tensor x, const std::string& name, Conv2dOptions options) {
  options.bias = false;
  options.initializer = kaiming_normal_fan_out(options);
  return conv2d(x, name, options);
}

/// Where the block changes size or channels, a 1x1 convolution takes x along.
Tensor shortcut(Tensor x, const std::string& block, std::int64_t channels, std::int64_t stride) {
  if (stride == 1 && x.shape()[1] == channels) return x;
  x = convolution(x, block + ".downsample.0", {.out_channels = channels, .stride = stride});
  return batch_norm2d(x, block + ".downsample.1");
}

Tensor basic_block(Tensor x, const std::string& name, std::int64_t width, std::int64_t stride) {
  Tensor y =
      convolution(x, name + ".conv1", {.out_channels = width, .kernel = 3, .stride = stride, .padding = 1});
  y = relu(batch_norm2d(y, name + ".bn1"));
  y = convolution(y, name + ".conv2", {.out_channels = width, .kernel = 3, .padding = 1});
  y = batch_norm2d(y, name + ".bn2");
  return relu(add(y, shortcut(x, name, width, stride)));
}

Tensor bottleneck_block(Tensor x, const std::string& name, std::int64_t width, std::int64_t stride) {
  Tensor y = relu(batch_norm2d(convolution(x, name + ".conv1", {.out_channels = width}), name + ".bn1"));
  y = convolution(y, name + ".conv2", {.out_channels = width, .kernel = 3, .stride = stride, .padding = 1});
  y = relu(batch_norm2d(y, name + ".bn2"));
  y = batch_norm2d(convolution(y, name + ".conv3", {.out_channels = 4 * width}), name + ".bn3");
  return relu(add(y, shortcut(x, name, 4 * width, stride)));
}

/// He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (2015).
Tensor forward(const Variant& variant, Tensor x, std::int64_t classes) {
  x = convolution(x, "conv1", {.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3});
  x = max_pool2d(relu(batch_norm2d(x, "bn1")), {.kernel = 3, .stride = 2, .padding = 1});
  const auto add_block = variant.bottleneck ? bottleneck_block : basic_block;
  std::int64_t width = 64;
  for (std::size_t layer = 0; layer < variant.blocks.size(); ++layer, width *= 2) {
    for (std::int64_t block = 0; block < variant.blocks[layer]; ++block) {
      const std::string name = "layer" + std::to_string(layer + 1) + "." + std::to_string(block);
      const std::int64_t stride = block == 0 && layer > 0 ? 2 : 1;
      x = segment(x, [&](Tensor in) { return add_block(in, name, width, stride); });
    }
  }
  return linear(flatten(adaptive_avg_pool2d(x, 1, 1)), "fc", classes);
}

template <const Variant& variant>
ZooEntry entry() {
  return {
      .name = variant.name,
      .what = variant.what,
      .arguments = {num_classes},
      .wants =
          [](const ModelArgs& args) {
            return InputSpec{.shape = {3, 224, 224}, .num_classes = num_classes.of(args), .target_shape = {}};
          },
      .make =
          [](const ModelArgs&, const InputSpec& input) {
            return Model{.name = variant.name, .forward = [classes = input.num_classes](Tensor x) {
                           return forward(variant, x, classes);
                         }};
          },
      .example = variant.example};
}

}  // namespace

ZooEntry resnet18_entry() {
  return entry<resnet18>();
}
ZooEntry resnet34_entry() {
  return entry<resnet34>();
}
ZooEntry resnet50_entry() {
  return entry<resnet50>();
}

}  // namespace lockstep::model
