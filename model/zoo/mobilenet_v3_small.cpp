#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

const IntegerArgument num_classes = class_count(1000);
const RealArgument dropout_share{.key = "dropout", .otherwise = 0.2, .range = {0, 0.999}};

using Activation = Tensor (*)(Tensor);

/// An inverted residual block: expand, convolve each channel alone, squeeze and excite, project.
struct Block {
  std::int64_t kernel;
  std::int64_t expanded;  ///< channels inside
  std::int64_t channels;  ///< of the output
  bool squeezes;
  Activation activation;
  std::int64_t stride;
};

/// Table 2 of Howard et al., "Searching for MobileNetV3" (2019), as torchvision has it.
constexpr Block blocks[] = {
    {3, 16, 16, true, relu, 2},       {3, 72, 24, false, relu, 2},      {3, 88, 24, false, relu, 1},
    {5, 96, 40, true, hardswish, 2},  {5, 240, 40, true, hardswish, 1}, {5, 240, 40, true, hardswish, 1},
    {5, 120, 48, true, hardswish, 1}, {5, 144, 48, true, hardswish, 1}, {5, 288, 96, true, hardswish, 2},
    {5, 576, 96, true, hardswish, 1}, {5, 576, 96, true, hardswish, 1},
};

Tensor convolution(Tensor x, const std::string& name, Conv2dOptions options) {
  options.padding = options.kernel / 2;
  options.initializer = kaiming_normal_fan_out(options);
  return conv2d(x, name, options);
}

/// torchvision's Conv2dNormActivation without the activation.
Tensor normalised(Tensor x, const std::string& name, Conv2dOptions options) {
  options.bias = false;
  x = convolution(x, name + ".0", options);
  return batch_norm2d(x, name + ".1", {.eps = 0.001, .momentum = 0.01});
}

/// Each channel times a factor that all channels' means decide: Hu, Shen, Sun, "Squeeze-and-excitation
/// networks" (2017).
Tensor excited(Tensor x, const std::string& name) {
  const std::int64_t channels = x.shape()[1];
  const std::int64_t squeezed = (channels / 4 + 4) / 8 * 8;  // the multiple of 8 nearest to a quarter
  Tensor factor = convolution(adaptive_avg_pool2d(x, 1, 1), name + ".fc1", {.out_channels = squeezed});
  factor = convolution(relu(factor), name + ".fc2", {.out_channels = channels});
  return mul(x, hardsigmoid(factor));
}

Tensor inverted_residual(const Block& block, Tensor x, const std::string& name) {
  int next = 0;
  const auto layer = [&] { return name + ".block." + std::to_string(next++); };
  Tensor y = x;
  if (block.expanded != x.shape()[1]) {
    y = block.activation(normalised(y, layer(), {.out_channels = block.expanded}));
  }
  y = block.activation(normalised(y, layer(),
                                  {.out_channels = block.expanded,
                                   .kernel = block.kernel,
                                   .stride = block.stride,
                                   .groups = block.expanded}));
  if (block.squeezes) y = excited(y, layer());
  y = normalised(y, layer(), {.out_channels = block.channels});
  return block.stride == 1 && y.shape() == x.shape() ? add(y, x) : y;
}

Tensor forward(Tensor x, double dropped, std::int64_t classes) {
  int next = 0;
  const auto feature = [&] { return "features." + std::to_string(next++); };
  x = hardswish(normalised(x, feature(), {.out_channels = 16, .kernel = 3, .stride = 2}));
  for (const Block& block : blocks) {
    x = segment(x, [&, name = feature()](Tensor in) { return inverted_residual(block, in, name); });
  }
  x = hardswish(normalised(x, feature(), {.out_channels = 6 * x.shape()[1]}));
  constexpr Initializer narrow{.deviation = 0.01F};
  x = linear(flatten(adaptive_avg_pool2d(x, 1, 1)), "classifier.0", 1024, {.initializer = narrow});
  return linear(dropout(hardswish(x), dropped), "classifier.3", classes, {.initializer = narrow});
}

}  // namespace

ZooEntry mobilenet_v3_small_entry() {
  return {
      .name = "mobilenet_v3_small",
      .what = "depthwise convolutions with squeeze-and-excitation, torchvision's; images from 32x32",
      .arguments = {num_classes, dropout_share},
      .wants =
          [](const ModelArgs& args) {
            return InputSpec{.shape = {3, 224, 224}, .num_classes = num_classes.of(args), .target_shape = {}};
          },
      .make =
          [](const ModelArgs& args, const InputSpec& input) {
            return Model{.name = "mobilenet_v3_small",
                         .forward = [dropped = dropout_share.of(args), classes = input.num_classes](
                                        Tensor x) { return forward(x, dropped, classes); }};
          },
      .example = "--dataset synthetic --batch-size 32"};
}

}  // namespace lockstep::model
