// Of a model with an encoder: the source is taken in once, and the target grows behind it.
#include <algorithm>
#include <cmath>

#include "kernels/loss.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_translator.h"

namespace lockstep::runtime {
namespace {

using namespace testing;

/// The logits behind each token of the target, from one pass over source and target.
std::vector<float> whole_logits(const model::Model& model, const Tokens& source, const Tokens& target) {
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  std::vector<Plan> plans;
  plans.push_back(make_plan(model, pairs(), {.key = {.mode = Mode::evaluate}}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  ParameterIO(*device, plans.front(), memory).initialise(5);
  auto* const input = static_cast<std::int64_t*>(memory.input(0));
  std::fill_n(input, source_length + target_length, -1);
  std::ranges::copy(source, input);
  std::ranges::copy(target, input + source_length);
  std::fill_n(static_cast<std::int64_t*>(memory.target(0)), target_length, 0);
  memory.host_input(0) = {.state = {.valid_samples = 1}, .control = {}};
  executor.run(plans.front(), 0);
  const auto& nodes = plans.front().graph.nodes();
  const auto loss = std::ranges::find_if(nodes, [](const auto& node) {
    return node.op->template as<kernels::SoftmaxCrossEntropy>() != nullptr;
  });
  const Launch& launch = plans.front().launches.nodes[static_cast<std::size_t>(loss - nodes.begin())];
  const auto* const logits = static_cast<const float*>(
      memory.address(launch.operands[kernels::SoftmaxCrossEntropy::predictions], 0));
  return {logits, logits + target_length * words};
}

/// Behind each token of the target.
std::vector<float> grown_logits(Decoder& decoder, std::int64_t row, const Tokens& source,
                                const Tokens& target) {
  std::vector<float> all;
  decoder.begin_target(row, source);
  for (std::size_t at = 0; at < target.size(); ++at) {
    decoder.append(row, std::span(target).subspan(at, 1));
    decoder.run();
    const auto logits = decoder.logits(row);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

}  // namespace

TEST_CASE("translation: each token's logits are those of the whole pair") {
  const auto args = GENERATE(model::ModelArgs{}, model::ModelArgs{{"positions", "learned"}},
                             model::ModelArgs{{"norm_first", "true"}});
  const model::Model model = translator(args);
  const Tokens source = some_words(GENERATE(1, 6, 9), 2);
  const Tokens target = some_words(target_length, 4);
  SmallTranslator translator(model, 3);
  const std::vector<float> got = grown_logits(translator.decoder, 1, source, target);
  const std::vector<float> wanted = whole_logits(model, source, target);
  REQUIRE(got.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max<double>(worst, std::abs(got[i] - wanted[i]));
  CAPTURE(source.size(), args);
  CHECK(worst < 2e-5);
}

TEST_CASE("translation: a row has the same bits beside any others, which may begin later") {
  const model::Model model = translator();
  const Tokens source = some_words(6, 2);
  const Tokens target = some_words(target_length, 4);
  SmallTranslator alone(model, 1);
  if (!alone.on_cpu()) return;
  const std::vector<float> wanted = grown_logits(alone.decoder, 0, source, target);
  SmallTranslator many(model, 4);
  many.decoder.begin_target(0, some_words(9, 5));
  many.decoder.append(0, std::span(target).first(3));
  CHECK((grown_logits(many.decoder, 2, source, target) == wanted));
  CHECK((grown_logits(many.decoder, 3, source, target) == wanted));
}

TEST_CASE("translation: the plan of a token does nothing that follows from the source alone") {
  SmallTranslator small(translator(), 1);
  for (const model::Node& node : small.decoder.plan().graph.nodes()) {
    CAPTURE(node.layer, node.op->name());
    CHECK(node.layer.find("encoder") == std::string::npos);
    CHECK(node.op->name() != "position_encoding");
  }
}

}  // namespace lockstep::runtime
