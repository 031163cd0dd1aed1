#include "model/zoo/zoo.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep::model {
namespace {

using tests::message_of;

std::map<std::string, std::string> parameters_of(const std::string& name, const InputSpec& input) {
  const Graph graph = build_graph(find_model(name, {}).make({}, input), input, 2, true);
  std::map<std::string, std::string> shapes;
  for (const Parameter& parameter : graph.parameters()) {
    shapes[graph.value(parameter.value).name] = parameter.file_shape.str();
  }
  return shapes;
}

TEST_CASE("parameters have PyTorch's names and shapes") {
  const InputSpec images{.shape = {1, 28, 28}, .num_classes = 10};
  CHECK(parameters_of("mlp", images) ==
        std::map<std::string, std::string>{
            {"1.weight", "128x784"}, {"1.bias", "128"}, {"3.weight", "10x128"}, {"3.bias", "10"}});
  CHECK(parameters_of("convnet", images) == std::map<std::string, std::string>{{"conv1.weight", "32x1x3x3"},
                                                                               {"conv1.bias", "32"},
                                                                               {"conv2.weight", "64x32x3x3"},
                                                                               {"conv2.bias", "64"},
                                                                               {"fc1.weight", "128x3136"},
                                                                               {"fc1.bias", "128"},
                                                                               {"fc2.weight", "10x128"},
                                                                               {"fc2.bias", "10"}});
  CHECK(parameters_of("simplecnn", {.shape = {3, 14, 14}, .num_classes = 10}) ==
        std::map<std::string, std::string>{
            {"conv1.weight", "16x3x3x3"}, {"conv1.bias", "16"}, {"fc.weight", "10x784"}, {"fc.bias", "10"}});
  CHECK(parameters_of("linear", {.shape = {10}, .num_classes = 0, .target_shape = {1}}) ==
        std::map<std::string, std::string>{{"weight", "1x10"}, {"bias", "1"}});
}

TEST_CASE("torchvision's models have as many parameters as its own, on the data set's channels and classes") {
  const auto parameters = [](const std::string& name, const InputSpec& input) {
    return build_graph(find_model(name, {}).make({}, input), input, 2, true).parameter_elements();
  };
  for (const auto& [name, wanted] : std::map<std::string, std::int64_t>{{"resnet18", 11'689'512},
                                                                        {"resnet34", 21'797'672},
                                                                        {"resnet50", 25'557'032},
                                                                        {"mobilenet_v3_small", 2'542'856}}) {
    INFO(name);
    CHECK(parameters(name, find_model(name, {}).wants({})) == wanted);
  }
  const InputSpec digits{.shape = {1, 28, 28}, .num_classes = 10};
  CHECK(parameters("resnet18", digits) == 11'689'512 - 2 * 64 * 49 - 990 * 513);
  const InputSpec cifar{.shape = {3, 32, 32}, .num_classes = 10};
  CHECK(parameters("mobilenet_v3_small", cifar) == 2'542'856 - 990 * 1025);
}

TEST_CASE("torchvision's models start as its own do") {
  const auto initializer = [](const std::string& model, const std::string& parameter) {
    const ZooEntry& entry = find_model(model, {});
    const Graph graph = build_forward(entry.make({}, entry.wants({})), entry.wants({}), 1);
    const auto found = std::ranges::find_if(graph.parameters(), [&](const Parameter& candidate) {
      return graph.value(candidate.value).name == parameter;
    });
    REQUIRE(found != graph.parameters().end());
    return found->initializer;
  };
  CHECK(initializer("resnet50", "layer2.0.conv2.weight").deviation == Approx(std::sqrt(2.0 / (128 * 9))));
  CHECK(initializer("resnet50", "layer2.0.bn2.weight").start == 1);
  CHECK(initializer("resnet50", "fc.bias").bound == Approx(1 / std::sqrt(2048.0)));
  CHECK(initializer("mobilenet_v3_small", "features.2.block.1.0.weight").deviation ==
        Approx(std::sqrt(2.0 / (72 * 9))));
  CHECK(initializer("mobilenet_v3_small", "classifier.3.weight").deviation == 0.01F);
  for (const char* zeros : {"classifier.3.bias", "features.1.block.1.fc1.bias"}) {
    const Initializer bias = initializer("mobilenet_v3_small", zeros);
    CHECK((bias.bound == 0 && bias.start == 0 && bias.deviation == 0));
  }
}

TEST_CASE("arguments are described with kind, range and default") {
  CHECK(describe(class_count(1000)) == "num_classes=1000 (a whole number, 1 to 16777216)");
  CHECK(describe(RealArgument{.key = "dropout", .otherwise = 0.2, .range = {0, 1}}) ==
        "dropout=0.2 (a number, 0 to 1)");
  CHECK(describe(ChoiceArgument{.key = "norm", .choices = {"batch", "layer"}}) ==
        "norm=batch (batch, layer)");
  CHECK(describe(SwitchArgument{.key = "bias", .otherwise = true}) == "bias=true (true, false)");
}

TEST_CASE("unknown models and arguments meet the nearest name") {
  CHECK(message_of<UsageError>([] { find_model("convnt", {}); }) ==
        "unknown model 'convnt', did you mean 'convnet'? `trainer models` lists them");
  CHECK(message_of<UsageError>([] {
          find_model("mlp", {{"hiden", "3"}});
        }) == "unknown argument of model 'mlp' 'hiden', did you mean 'hidden'?");
  CHECK(message_of<UsageError>([] {
          find_model("convnet", {{"width", "3"}});
        }) == "unknown argument of model 'convnet' 'width'; there are: num_classes");
  CHECK(message_of<UsageError>([] {
          check_arguments("bare", {}, {{"width", "3"}});
        }) == "model 'bare' takes no arguments, not 'width'");
}

TEST_CASE("arguments are of the kind and in the range that the model declares") {
  const std::vector<Argument> declared{
      IntegerArgument{.key = "layers", .otherwise = 2, .range = {1, 96}},
      RealArgument{.key = "dropout", .otherwise = 0.1, .range = {0, 1}},
      ChoiceArgument{.key = "activation", .choices = {"gelu", "relu"}},
      SwitchArgument{.key = "bias", .otherwise = true},
  };
  const auto refusal = [&](const std::string& key, const std::string& value) {
    return message_of<UsageError>([&] { check_arguments("gpt", declared, {{key, value}}); });
  };
  CHECK(refusal("layers", "97") == "model 'gpt': layers=97: 97 is not in the range 1 to 96");
  CHECK(refusal("layers", "2.5") == "model 'gpt': layers=2.5: '2.5' is not a whole number");
  CHECK(refusal("dropout", "1.5") == "model 'gpt': dropout=1.5: 1.5 is not in the range 0 to 1");
  CHECK(refusal("dropout", "high") == "model 'gpt': dropout=high: 'high' is not a number");
  CHECK(refusal("activation", "tanh") == "model 'gpt': activation=tanh: what is: gelu, relu");
  CHECK(refusal("bias", "2") == "model 'gpt': bias=2: what is: true, false");
  CHECK(refusal("layer", "2") == "unknown argument of model 'gpt' 'layer', did you mean 'layers'?");

  const ModelArgs typed{{"layers", "12"}, {"dropout", "0.25"}, {"activation", "relu"}, {"bias", "false"}};
  check_arguments("gpt", declared, typed);
  CHECK(std::get<0>(declared[0]).of(typed) == 12);
  CHECK(std::get<1>(declared[1]).of(typed) == 0.25);
  CHECK(std::get<2>(declared[2]).of(typed) == "relu");
  CHECK_FALSE(std::get<3>(declared[3]).of(typed));
  CHECK(std::get<0>(declared[0]).of({}) == 2);
  CHECK(std::get<1>(declared[1]).of({}) == 0.1);
  CHECK(std::get<2>(declared[2]).of({}) == "gelu");
  CHECK(std::get<3>(declared[3]).of({}));
}

TEST_CASE("inputs of another dtype are refused by the first layer that computes with them") {
  const auto refusal = [](const std::string& name, const InputSpec& input) {
    return message_of<UsageError>([&] { build_graph(find_model(name, {}).make({}, input), input, 2, true); });
  };
  CHECK(refusal("mlp", {.shape = {4}, .num_classes = 2, .target_shape = {}, .dtype = DType::i64}) ==
        "layer '1' (linear): x is i64 2x4, must be f32, bf16 or f16: save it as f32");
  CHECK(refusal("convnet", {.shape = {1, 8, 8}, .num_classes = 2, .target_shape = {}, .dtype = DType::u8}) ==
        "layer 'conv1' (conv2d): x is u8 2x1x8x8, must be f32, bf16 or f16: save it as f32");
  const Model identity{.name = "identity", .forward = [](Tensor x) { return x; }};
  CHECK(message_of<UsageError>([&] {
          build_graph(identity, {.shape = {2}, .num_classes = 2, .target_shape = {}, .dtype = DType::i32}, 4,
                      true);
        }) == "layer 'loss' (softmax_cross_entropy): the output is i32 4x2, must be f32");
}

TEST_CASE("values that no memory can hold are refused before there is any") {
  const InputSpec input{.shape = {1 << 24}, .num_classes = 0, .target_shape = {1 << 24}};
  CHECK_THAT(
      message_of<UsageError>([&] { build_graph(find_model("linear", {}).make({}, input), input, 1, true); }),
      tests::contains("16777216x16777216") && tests::contains("2^40"));
}

}  // namespace
}  // namespace lockstep::model
