#include <algorithm>
#include <cmath>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/safetensors.h"
#include "model/layers.h"
#include "model/zoo/zoo.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/support/largest_error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/optimizer_state_of.h"

namespace lockstep::runtime {
namespace {

using tests::contains;

/// A model on one rank that trains on a batch of zeros and zero targets.
class Replica {
 public:
  Replica(const std::string& name, const model::OptimizerOptions& optimizer)
      : Replica(model::find_model(name, {}).make({}, input_of(name)), input_of(name), optimizer) {}
  Replica(const std::string& name, const model::OptimizerOptions& optimizer, double average_decay)
      : Replica(model::find_model(name, {}).make({}, input_of(name)), input_of(name), optimizer,
                average_decay) {}

  Replica(const model::Model& model, const model::InputSpec& input, const model::OptimizerOptions& optimizer,
          double average_decay = 0)
      : optimizer_(optimizer) {
    plans_.push_back(make_plan(model, input,
                               {.key = {.batch = 4}, .average_decay = average_decay, .optimizer = optimizer},
                               *device_, {}));
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    access().initialise(5);
  }

  ParameterIO access() { return {*device_, plans_.front(), *memory_}; }
  const Plan& plan() const { return plans_.front(); }

  void train(int steps) {
    memory_->host_input(0).state = {
        .learning_rate = optimizer_.learning_rate, .loss_scale = 0.25F, .valid_samples = 4};
    for (int step = 0; step < steps; ++step) executor_->run(plans_.front(), 0);
  }

 private:
  static model::InputSpec input_of(const std::string& name) { return model::find_model(name, {}).wants({}); }

  model::OptimizerOptions optimizer_;
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {});
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

std::vector<std::string> names_in(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<std::string> names;
  for (const auto& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

TEST_CASE("weights and optimizer state go through files to the bit, whatever the layouts") {
  const tests::TemporaryFolder folder;
  const std::string name = GENERATE("mlp", "convnet");
  const model::OptimizerOptions optimizer =
      GENERATE(model::OptimizerOptions{.kind = model::OptimizerKind::adam},
               model::OptimizerOptions{.kind = model::OptimizerKind::adamw, .weight_decay = 0.01},
               model::OptimizerOptions{.kind = model::OptimizerKind::sgd, .momentum = 0.9},
               model::OptimizerOptions{.kind = model::OptimizerKind::sgd});
  Replica one(name, optimizer);
  one.train(3);
  save_tensors(folder / "model", one.access().parameters());
  save_tensors(folder / "optimizer", testing::optimizer_state_of(one.access()));
  const auto bytes = [&](const char* file) {
    std::size_t sum = 0;
    const SafetensorsFile tensors(folder / file);
    for (const auto& tensor : tensors.tensors()) sum += tensor.bytes.size();
    return sum;
  };
  CHECK(bytes("model") + bytes("optimizer") == staged_bytes(one.plan()));
  const ParameterIO io = one.access();
  save_tensors(folder / "model read", io.weights());
  save_tensors(folder / "optimizer read", io.optimizer_state());
  CHECK(whole_text(folder / "model read") == whole_text(folder / "model"));
  CHECK(whole_text(folder / "optimizer read") == whole_text(folder / "optimizer"));

  Replica other(name, optimizer);
  CHECK(other.access().fingerprint() != one.access().fingerprint());
  other.access().load(WeightsFile(folder / "model"));
  other.access().load_optimizer_state(folder / "optimizer");
  CHECK(one.access().applied_updates() == 3);
  CHECK(other.access().applied_updates() == 0);
  other.access().set_applied_updates(one.access().applied_updates());
  CHECK(other.access().fingerprint() == one.access().fingerprint());
  one.train(3);
  other.train(3);
  CHECK(other.access().fingerprint() == one.access().fingerprint());
  CHECK(sha256_of(testing::optimizer_state_of(other.access())) ==
        sha256_of(testing::optimizer_state_of(one.access())));
}

TEST_CASE("buffers start with their layer's value, are not learned, and are saved with the weights") {
  const tests::TemporaryFolder folder;
  const model::Model scaled{.name = "scaled", .forward = [](model::Tensor x) {
                              const model::Tensor scale(x.graph(), x.graph().add_buffer("scale", {5}, 2));
                              return linear(mul(x, scale), "fc", 3);
                            }};
  const model::InputSpec input{.shape = {5}, .num_classes = 3};
  Replica replica(scaled, input, {});
  const auto saved = [&] { return replica.access().parameters(); };
  REQUIRE(saved().size() == 3);
  CHECK(saved()[2].name == "scale");
  CHECK(saved()[2].values == std::vector<float>(5, 2));
  replica.train(3);
  CHECK(saved()[2].values == std::vector<float>(5, 2));
  std::vector<NamedTensor> other = saved();
  other[2].values = {1, 2, 3, 4, 5};
  save_tensors(folder / "model", other);
  replica.access().load(WeightsFile(folder / "model"));
  CHECK(saved()[2].values == other[2].values);
  save_tensors(folder / "without", std::span(other).first(2));
  CHECK_THAT(tests::message_of<DataError>([&] { replica.access().load(WeightsFile(folder / "without")); }),
             contains("'scale'"));
}

TEST_CASE("averaged weights: files have the average, the optimizer's state what is trained, to the bit") {
  const tests::TemporaryFolder folder;
  const model::OptimizerOptions sgd{.kind = model::OptimizerKind::sgd, .learning_rate = 0.5};
  constexpr double decay = 0.75;
  Replica one("convnet", sgd, decay);
  Replica plain("convnet", sgd);
  const auto raw = [&] { return testing::optimizer_state_of(one.access()); };
  const auto average = [&] { return one.access().parameters(); };
  CHECK(raw().front().name == average().front().name + ".raw");
  CHECK(sha256_of(raw()) == sha256_of(average()));  // before the first update
  std::vector<NamedTensor> wanted;
  for (int step = 1; step <= 4; ++step) {
    one.train(1);
    plain.train(1);
    const std::vector<NamedTensor> trained = plain.access().parameters();
    CHECK(sha256_of(raw()) == sha256_of(trained));
    if (step == 1) wanted = trained;
    double largest = 0;
    const std::vector<NamedTensor> got = average();
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      for (std::size_t i = 0; i < wanted[t].values.size(); ++i) {
        float& w = wanted[t].values[i];
        w += static_cast<float>(1 - decay) * (trained[t].values[i] - w);
        largest = std::max(largest, tests::error_between(w, got[t].values[i]));
      }
    }
    CHECK(largest == 0);  // the formula in the same order, without fused multiply-adds
  }
  CHECK(sha256_of(raw()) != sha256_of(average()));
  save_tensors(folder / "model", average());
  save_tensors(folder / "optimizer", raw());
  const std::size_t bytes = [&] {
    std::size_t sum = 0;
    for (const char* file : {"model", "optimizer"}) {
      const SafetensorsFile tensors(folder / file);
      for (const auto& tensor : tensors.tensors()) sum += tensor.bytes.size();
    }
    return sum;
  }();
  CHECK(bytes == staged_bytes(one.plan()));

  Replica other("convnet", sgd, decay);
  other.access().load(WeightsFile(folder / "model"));
  CHECK(sha256_of(testing::optimizer_state_of(other.access())) == sha256_of(other.access().parameters()));
  other.access().load_optimizer_state(folder / "optimizer");
  other.access().set_applied_updates(4);
  CHECK(other.access().fingerprint() == one.access().fingerprint());
  one.train(2);
  other.train(2);
  CHECK(other.access().fingerprint() == one.access().fingerprint());
}

TEST_CASE("without its optimizer's state a replica continues differently") {
  const tests::TemporaryFolder folder;
  const model::OptimizerOptions optimizer;
  Replica one("mlp", optimizer);
  one.train(3);
  save_tensors(folder / "model", one.access().parameters());
  Replica other("mlp", optimizer);
  other.access().load(WeightsFile(folder / "model"));
  one.train(1);
  other.train(1);
  CHECK(other.access().fingerprint() != one.access().fingerprint());
}

TEST_CASE("optimizer state has PyTorch's names; a file of another optimizer is refused") {
  const tests::TemporaryFolder folder;
  const model::OptimizerOptions adam;
  const model::OptimizerOptions sgd{.kind = model::OptimizerKind::sgd, .momentum = 0.9};
  Replica one("mlp", adam);
  save_tensors(folder / "adam", testing::optimizer_state_of(one.access()));
  const auto names = names_in(folder / "adam");
  CHECK(names[0] == "1.weight.exp_avg");
  CHECK(names[1] == "1.weight.exp_avg_sq");
  Replica other("mlp", sgd);
  save_tensors(folder / "sgd", testing::optimizer_state_of(other.access()));
  CHECK(names_in(folder / "sgd")[0] == "1.weight.momentum_buffer");
  CHECK_THAT(tests::message_of<DataError>([&] { other.access().load_optimizer_state(folder / "adam"); }),
             contains("adam") && contains("'1.weight.exp_avg' is none of the model's"));
}

TEST_CASE("a parameter starts as its initializer says") {
  const model::Model net{.name = "scaled", .forward = [](model::Tensor x) {
                           model::Graph& graph = x.graph();
                           const model::Tensor gain(graph, graph.add_parameter("gain", {3}, {.start = 1}));
                           const model::Tensor shift(
                               graph, graph.add_parameter("shift", {3}, {.bound = 0.25F, .start = 4}));
                           const model::Initializer normal{.start = 1, .deviation = 0.5F};
                           return linear(add(mul(x, gain), shift), "head", 1000, {.initializer = normal});
                         }};
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  std::vector<Plan> plans;
  plans.push_back(make_plan(net, {.shape = {3}, .num_classes = 1000}, {.key = {.batch = 2}}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans);
  ParameterIO access(*device, plans[0], memory);
  access.initialise(7);
  const std::vector<NamedTensor> parameters = access.parameters();
  REQUIRE(parameters.size() == 4);
  CHECK(parameters[0].values == std::vector<float>{1, 1, 1});
  for (const float value : parameters[1].values) {
    CHECK(value >= 3.75F);
    CHECK(value <= 4.25F);
    CHECK(value != 4);
  }
  CHECK(parameters[3].values == std::vector<float>(1000, 0));
  double sum = 0;
  double squares = 0;
  for (const float value : parameters[2].values) {
    sum += value - 1;
    squares += (value - 1) * (value - 1);
  }
  // Four standard deviations of the mean, and of the mean square, of 3000 normals.
  CHECK(sum / 3000 == Approx(0).margin(4 * 0.5 / std::sqrt(3000.0)));
  CHECK(squares / 3000 == Approx(0.25).margin(4 * 0.25 * std::sqrt(2 / 3000.0)));
}

}  // namespace
}  // namespace lockstep::runtime
