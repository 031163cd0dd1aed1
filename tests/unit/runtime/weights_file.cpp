// Weights in one file and in shards, and replicas that start from them.
#include "runtime/step/weights_file.h"

#include <bit>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "runtime/checkpoint/saved_weights.h"
#include "runtime/step/initial_weights.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

using tests::contains;
using tests::message_of;

NamedTensor tensor(const std::string& name, std::int64_t elements) {
  return {.name = name,
          .shape = {elements},
          .values = std::vector<float>(static_cast<std::size_t>(elements), static_cast<float>(elements))};
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE(
    "names of classes and tokens, and shapes of values, are kept with the weights, in one file or shards") {
  const tests::TemporaryFolder folder;
  const std::vector<NamedTensor> weights{tensor("a", 10), tensor("b", 20)};
  const std::vector<std::string> names{"cat", "a \"dog\", or so",
                                       "Stra\xc3\x9f"
                                       "e"};
  for (const std::size_t limit : {0, 50}) {
    save_weights(folder.path(), weights, limit,
                 {.classes = names, .tokens = {"\n", "a"}, .values = Shape{3, 2}});
    CHECK(WeightsFile(folder.path()).class_names() == names);
    CHECK(WeightsFile(folder.path()).token_names() == std::vector<std::string>{"\n", "a"});
    CHECK(WeightsFile(folder.path()).values_shape() == Shape{3, 2});
  }
  save_weights(folder.path(), weights, 0, {.values = Shape{}});
  CHECK(WeightsFile(folder.path()).class_names().empty());
  CHECK(WeightsFile(folder.path()).values_shape() == Shape{});
  save_weights(folder.path(), weights, 0);
  CHECK_FALSE(WeightsFile(folder.path()).values_shape().has_value());
  const float value = 0;
  const SafetensorsFile::Tensor foreign{"a", DType::f32, {1}, std::as_bytes(std::span(&value, 1))};
  write_safetensors(folder / "model.safetensors", std::span(&foreign, 1),
                    {{"class_names", "cat, dog"}, {"values_shape", "[3, 0]"}});
  CHECK(WeightsFile(folder.path()).class_names().empty());
  CHECK_FALSE(WeightsFile(folder.path()).values_shape().has_value());
}

TEST_CASE("weights above the limit are written in shards with Hugging Face's names, and read back") {
  const tests::TemporaryFolder folder;
  // 40, 80, 400 and 20 bytes with a limit of 120: {a, b}, {c}, {d}.
  const std::vector<NamedTensor> weights{tensor("a", 10), tensor("b", 20), tensor("c", 100), tensor("d", 5)};
  save_weights(folder.path(), weights, 120);
  CHECK(files_in(folder.path()) ==
        std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
  const Json index = Json::parse(read_text(folder / shard_index_file));
  CHECK(index["metadata"]["total_size"].get<int>() == 540);
  CHECK(index["weight_map"]["b"].get<std::string>() == "model-00001-of-00003.safetensors");
  CHECK(index["weight_map"]["d"].get<std::string>() == "model-00003-of-00003.safetensors");
  for (const auto& path : {folder.path(), folder / shard_index_file}) {
    const WeightsFile file(path);
    REQUIRE(file.tensors().size() == 4);
    CHECK(to_floats(*file.find("c")) == weights[2].values);
  }

  save_weights(folder.path(), weights, 540);  // they fit: the shards go
  CHECK(files_in(folder.path()) == std::vector<std::string>{"model.safetensors"});
  CHECK(WeightsFile(folder.path()).tensors().size() == 4);
}

TEST_CASE("of weights in a folder only those with a name that is ours make room for others") {
  const tests::TemporaryFolder folder;
  std::vector<std::string> others{"model-1-of-2.safetensors", "model-a0001-of-00002.safetensors",
                                  "model-best-of-3.safetensors"};
  for (const std::string& name : others) tests::write_file(folder / name, "");
  tests::write_file(folder / "model-00002-of-00002.safetensors", "");
  save_weights(folder.path(), std::vector{tensor("a", 10)}, 0);
  others.emplace_back("model.safetensors");
  CHECK(files_in(folder.path()) == others);
}

TEST_CASE("an index that its shards do not bear out is refused by name") {
  const tests::TemporaryFolder folder;
  save_weights(folder.path(), std::vector{tensor("a", 10), tensor("b", 20)}, 50);
  const auto refusal = [&](const std::string& weight_map) {
    write_file_atomically(folder / shard_index_file, R"({"metadata": {}, "weight_map": )" + weight_map + "}");
    return message_of<DataError>([&] { WeightsFile file(folder.path()); });
  };
  const std::string first = R"("a": "model-00001-of-00002.safetensors")";
  CHECK(refusal("{" + first + R"(, "b": "model-00002-of-00002.safetensors"})").empty());
  CHECK_THAT(refusal("{" + first + R"(, "b": "model-00001-of-00002.safetensors"})"),
             contains("tensor 'b' is not in model-00001"));
  CHECK_THAT(refusal("{" + first + R"(, "b": "../b.safetensors"})"), contains("no file beside the index"));
  CHECK_THAT(refusal("{" + first + R"(, "b": "model-3.safetensors"})"), contains("model-3.safetensors"));
  CHECK_THAT(refusal("[1]"), contains("is no index of shards"));
}

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

  std::vector<std::string> start_from(const std::filesystem::path& path,
                                      const std::vector<std::string>& of_tokens = {}) {
    ParameterIO replica = io();
    const auto head = model::head_parameters(model::build_forward(model_, input_, 1));
    return runtime::start_from(replica, WeightsFile(path), head, of_tokens, 9);
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

TEST_CASE("what weights know of tokens is never drawn anew, also where it is the head") {
  const tests::TemporaryFolder folder;
  Replica ten(10);
  Replica three(3);
  save_tensors(folder / "ten", ten.io().parameters());
  save_tensors(folder / "three", three.io().parameters());
  CHECK(message_of<DataError>([&] { three.start_from(folder / "ten", {"fc2.weight"}); }) ==
        (folder / "ten").string() + ": fc2.weight knows 10 tokens, the model has 3; give --vocab-size 10");
  CHECK(message_of<DataError>([&] { ten.start_from(folder / "three", {"fc2.weight"}); }) ==
        (folder / "three").string() + ": fc2.weight knows 3 tokens, the model has 10");
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
  const model::OptimizerOptions adam;
  for (const NamedTensor& state : replica.io().optimizer_state(adam)) CHECK(state.name.starts_with("fc2."));
  CHECK(replica.io().parameters().size() == 4);
}

TEST_CASE("patterns that freeze nothing or everything are refused") {
  CHECK_THAT(message_of<UsageError>([] { Replica replica(3, {"fc1.weigth"}); }),
             contains("--freeze: unknown parameter 'fc1.weigth', did you mean 'fc1.weight'"));
  CHECK_THAT(message_of<UsageError>([] { Replica replica(3, {"fc*"}); }), contains("no parameter is left"));
}

TEST_CASE("weights are found in a file, a folder of shards, a run and a checkpoint") {
  const tests::TemporaryFolder folder;
  CHECK_THAT(message_of<DataError>([&] { find_saved_weights(folder / "nothing"); }),
             contains("no such file"));
  CHECK_THAT(message_of<DataError>([&] { find_saved_weights(folder.path()); }), contains("holds no weights"));
  save_weights(folder.path(), std::vector{tensor("a", 10), tensor("b", 20)}, 50);
  CHECK(find_saved_weights(folder.path()).weights == folder.path());
  CHECK_FALSE(find_saved_weights(folder.path()).config);
  write_file_atomically(folder / "config.ini", "");
  CHECK(find_saved_weights(folder.path()).config == folder / "config.ini");
}

TEST_CASE(
    "of weights that no run made the names of PyTorch's wrappers are dropped; a run's stay as they are") {
  const tests::TemporaryFolder folder;
  const auto names_of = [&](const std::string& a, const std::string& b) {
    save_weights(folder.path(), std::vector{tensor(a, 10), tensor(b, 20)}, 0);
    return open_weights(find_saved_weights(folder.path()), "mlp").names();
  };
  using Names = std::vector<std::string>;
  CHECK(names_of("module.1.bias", "module.1.weight") == Names{"1.bias", "1.weight"});
  CHECK(names_of("_orig_mod.1.bias", "_orig_mod.1.weight") == Names{"1.bias", "1.weight"});
  CHECK(names_of("_orig_mod.module.a.b", "module.a._orig_mod.c") == Names{"a.b", "a.c"});
  CHECK(names_of("module.a", "other.b") == Names{"module.a", "other.b"});
  CHECK(names_of("n_averaged", "module.a.b") == Names{"a.b"});
  write_file_atomically(folder / "config.ini", "");
  CHECK(names_of("module.a", "module.b") == Names{"module.a", "module.b"});
}

}  // namespace
}  // namespace lockstep::runtime
