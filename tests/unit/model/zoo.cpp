#include "model/zoo/zoo.h"

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

TEST_CASE("unknown models and arguments meet the nearest name") {
  CHECK(message_of<UsageError>([] { find_model("convnt", {}); }) ==
        "unknown model 'convnt', did you mean 'convnet'?");
  CHECK(message_of<UsageError>([] {
          find_model("mlp", {{"hiden", 3}});
        }) == "unknown argument of model 'mlp' 'hiden', did you mean 'hidden'?");
  CHECK(message_of<UsageError>([] {
          find_model("convnet", {{"width", 3}});
        }) == "model 'convnet' takes no arguments, not 'width'");
}

TEST_CASE("values that no memory can hold are refused before there is any") {
  const InputSpec input{.shape = {1 << 24}, .num_classes = 0, .target_shape = {1 << 24}};
  CHECK_THAT(
      message_of<UsageError>([&] { build_graph(find_model("linear", {}).make({}, input), input, 1, true); }),
      tests::contains("16777216x16777216") && tests::contains("2^40"));
}

}  // namespace
}  // namespace lockstep::model
