// Replicas that start from weights which were made elsewhere.
#include "runtime/weights/initial_weights.h"

#include <algorithm>
#include <bit>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/optimizer_state_of.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using tests::contains;
using tests::message_of;

/// A classifier of `classes` classes on one rank.
class Replica {
 public:
  explicit Replica(std::int64_t classes, std::vector<std::string> freeze = {})
      : model_(testing::classifier([classes](model::Tensor x) {
          return linear(relu(linear(flatten(x), "fc1", 6)), "fc2", classes);
        })),
        input_{.shape = {3, 2, 2}, .num_classes = classes} {
    plans_.push_back(
        make_plan(model_, input_, {.key = {.batch = 4}}, *device_, {.freeze = std::move(freeze)}));
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    io().initialise(3);
  }

  ParameterIO io() { return {*device_, plans_.front(), *memory_}; }
  const Plan& plan() const { return plans_.front(); }

  std::vector<std::string> start_from(const std::filesystem::path& path, KnownParts parts = {}) {
    ParameterIO replica = io();
    parts.head = model::head_parameters(model::build_forward(model_, input_, 1));
    return runtime::start_from(replica, WeightsFile(path), parts, 9);
  }

 private:
  model::Model model_;
  model::InputSpec input_;
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {});
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
};

TEST_CASE("weights of other classes start all but the head, which is drawn anew") {
  const tests::TemporaryFolder folder;
  Replica ten(10);
  save_tensors(folder / "ten", ten.io().parameters());
  Replica three(3);
  const std::vector<std::string> lines = three.start_from(folder / "ten");
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             contains("drawn anew: fc2.weight (10x6 there, 3x6 here), fc2.bias (10 there, 3 here)"));
  CHECK(three.io().parameters()[0].values == ten.io().parameters()[0].values);
  Replica drawn(3);
  drawn.io().initialise(9);
  CHECK(three.io().parameters()[2].values == drawn.io().parameters()[2].values);

  Replica again(10);
  CHECK(again.start_from(folder / "ten").empty());
  CHECK(again.io().fingerprint() == ten.io().fingerprint());
}

TEST_CASE("as many classes of other names, or by other numbers, are other classes") {
  const tests::TemporaryFolder folder;
  const auto file = folder / "pets";
  Replica pets(3);
  save_tensors(file, pets.io().parameters(), {.classes = {"cat", "dog", "eel"}});
  const auto lines_for = [&](Replica& replica, const std::vector<std::string>& classes) {
    replica.io().initialise(4);
    return replica.start_from(file, {.classes = classes});
  };
  Replica drawn(3);
  drawn.io().initialise(9);
  Replica three(3);
  for (const auto& [classes, difference] :
       {std::pair{std::vector<std::string>{"ant", "bee", "cow"}, "0 is 'cat' there, 'ant' here"},
        std::pair{std::vector<std::string>{"cat", "eel", "dog"}, "1 is 'dog' there, 'eel' here"}}) {
    const std::vector<std::string> lines = lines_for(three, classes);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] ==
          file.string() + ": knows other classes (" + difference + "): drawn anew: fc2.weight, fc2.bias");
    CHECK(three.io().parameters()[0].values == pets.io().parameters()[0].values);
    CHECK(three.io().parameters()[2].values == drawn.io().parameters()[2].values);
  }
  for (const std::vector<std::string>& same :
       {std::vector<std::string>{"cat", "dog", "eel"}, std::vector<std::string>{"cat", "", "eel"},
        std::vector<std::string>{}}) {
    CHECK(lines_for(three, same).empty());
    CHECK(three.io().fingerprint() == pets.io().fingerprint());
  }
  // Of tokens names do not decide, as a vocabulary is never drawn.
  CHECK(
      three.start_from(file, {.of_tokens = {"fc2.weight", "fc2.bias"}, .classes = {"a", "b", "c"}}).empty());
  CHECK(three.io().fingerprint() == pets.io().fingerprint());
}

TEST_CASE("what weights know of tokens is never drawn anew, also where it is the head") {
  const tests::TemporaryFolder folder;
  Replica ten(10);
  Replica three(3);
  save_tensors(folder / "ten", ten.io().parameters());
  save_tensors(folder / "three", three.io().parameters());
  CHECK(message_of<DataError>([&] { three.start_from(folder / "ten", {.of_tokens = {"fc2.weight"}}); }) ==
        (folder / "ten").string() + ": fc2.weight knows 10 tokens, the model has 3; give --vocab-size 10");
  CHECK(message_of<DataError>([&] { ten.start_from(folder / "three", {.of_tokens = {"fc2.weight"}}); }) ==
        (folder / "three").string() + ": fc2.weight knows 3 tokens, the model has 10");
  const KnownParts of_text{.of_tokens = {"fc2.weight"}, .of_text = true};
  CHECK(
      message_of<DataError>([&] { three.start_from(folder / "ten", of_text); }) ==
      (folder / "ten").string() +
          ": fc2.weight knows 10 tokens, the model has 3; give --tokenizer PATH, that of their training, or "
          "--vocab-size 10 if their first 3 are those of the text");
  CHECK(message_of<DataError>([&] { ten.start_from(folder / "three", of_text); }) ==
        (folder / "three").string() +
            ": fc2.weight knows 3 tokens, the model has 10; give --tokenizer PATH, that of their training");
}

TEST_CASE("any other mismatch is an error with both shapes, or with the nearest names") {
  const tests::TemporaryFolder folder;
  Replica replica(3);
  const auto refusal = [&](const auto& change) {
    std::vector<NamedTensor> weights = Replica(3).io().parameters();
    change(weights);
    save_tensors(folder / "weights", weights);
    return message_of<DataError>([&] { replica.start_from(folder / "weights"); });
  };
  CHECK_THAT(refusal([](auto& weights) {
               weights[1].shape = {2, 3};
             }),
             contains("'fc1.bias' is f32 2x3, the model needs f32 6"));
  CHECK_THAT(refusal([](auto& weights) { weights[1].name = "fc1.bia"; }),
             contains("'fc1.bia' is none of the model's, did you mean 'fc1.bias'?"));
  CHECK_THAT(refusal([](auto& weights) { weights.erase(weights.begin()); }),
             contains("has no tensor 'fc1.weight', which the model needs"));
}

TEST_CASE("half-precision and double weights are converted, and that is said") {
  const tests::TemporaryFolder folder;
  Replica replica(3);
  std::vector<NamedTensor> weights = replica.io().parameters();
  for (NamedTensor& each : weights) {
    for (float& value : each.values)
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U);
  }
  std::vector<std::vector<std::uint16_t>> halves;
  std::vector<SafetensorsFile::Tensor> entries;
  for (const NamedTensor& each : weights) {
    auto& bits = halves.emplace_back();
    for (const float value : each.values) {
      bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    entries.push_back({each.name, DType::bf16, each.shape, std::as_bytes(std::span(bits))});
  }
  write_safetensors(folder / "bf16", entries);
  const auto lines = replica.start_from(folder / "bf16");
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], contains("4 tensors of bf16 are converted to f32"));
  CHECK(sha256_of(replica.io().parameters()) == sha256_of(weights));
}

TEST_CASE("frozen parameters have no gradient and no optimizer state, and lie behind the others") {
  Replica replica(3, {"fc1.*"});
  const Plan& plan = replica.plan();
  REQUIRE(plan.arena.slices.size() == 2);
  REQUIRE(plan.arena.frozen.size() == 2);
  CHECK(plan.arena.frozen[0].name == "fc1.weight");
  for (const ArenaSlice& slice : plan.arena.frozen) CHECK(slice.first >= plan.arena.elements);
  CHECK(plan.graph.parameters()[0].gradient == model::no_value);
  // Nothing below the head is differentiated: one node makes its gradients, and the loss starts backward.
  const auto backward = std::ranges::count(plan.graph.nodes(), model::Phase::backward, &model::Node::phase);
  CHECK(backward == 1);
  CHECK(replica.io().gradients().size() == 2);
  for (const NamedTensor& state : testing::optimizer_state_of(replica.io()))
    CHECK(state.name.starts_with("fc2."));
  CHECK(replica.io().parameters().size() == 4);
}

TEST_CASE("patterns that freeze nothing or everything are refused") {
  CHECK_THAT(message_of<UsageError>([] { Replica replica(3, {"fc1.weigth"}); }),
             contains("--freeze: unknown parameter 'fc1.weigth', did you mean 'fc1.weight'"));
  CHECK_THAT(message_of<UsageError>([] { Replica replica(3, {"fc*"}); }), contains("no parameter is left"));
}

}  // namespace
}  // namespace lockstep::runtime
