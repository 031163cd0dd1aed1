// What a plugin's code throws or leaves out, and what a file of one lacks, is told with the plugin's name.
#include <array>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/dispatch.h"
#include "kernels/external_op.h"
#include "model/define_op.h"
#include "runtime/plan/plan.h"
#include "runtime/plugin/load_plugins.h"
#include "runtime/plugin/named_errors.h"
#include "runtime/run/task.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/variable.h"

namespace lockstep::runtime {
namespace {

using kernels::ExternalOp;
using model::Tensor;
using tests::message_of;

const std::string file = FAULTY_PLUGIN;

TrainingTask task_of(const std::string& model, const std::string& dataset,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"--plugin=" + file, "--model=" + model, "--dataset=" + dataset};
  words.insert(words.end(), more.begin(), more.end());
  return make_task(parse_options(words));
}

TEST_CASE("what a plugin's register function throws is told with its file") {
  const auto refusal = [](const char* thrown) {
    const tests::Variable variable("FAULTY_PLUGIN_THROWS", thrown);
    return message_of<UsageError>([] { load_plugins({file}); });
  };
  const std::string whose = "--plugin " + file + ": the register function of plugin 'faulty': ";
  CHECK(refusal("exception") == whose + "no licence");
  CHECK(refusal("number") == whose + "it threw what is no std::exception");
  const tests::Variable variable("FAULTY_PLUGIN_THROWS", "data error");
  try {
    load_plugins({file});
    FAIL("it throws");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK(error.what() == "--plugin " + file + ": table.txt: offset 0: is empty");
  }
}

TEST_CASE("what a plugin's data set throws is told with its name, and the sample's number") {
  const TrainingTask task = task_of("mlp", "points");
  const auto refusal = [&](std::int64_t sample) {
    std::array<std::byte, 8> input{};
    std::array<std::byte, 8> target{};
    return message_of<DataError>([&] { task.train_set->get(sample, 0, input, target); });
  };
  CHECK(refusal(2).empty());
  CHECK(refusal(3) == "data set 'points' of plugin 'faulty', sample 3: no row 3");
  CHECK(message_of<DataError>([] { task_of("mlp", "closed"); }) ==
        "data set 'closed' of plugin 'faulty': no such table");
  const auto refusal_of = [](const std::string& dataset) {
    return message_of<DataError>([&] { task_of("mlp", dataset); });
  };
  CHECK(refusal_of("unnamed") == "data set 'unnamed' of plugin 'faulty': no list of names");
  CHECK(refusal_of("wordless") == "data set 'wordless' of plugin 'faulty': no list of names");
  CHECK(refusal_of("unnoted") == "data set 'unnoted' of plugin 'faulty': no note");
}

TEST_CASE("what a plugin's model throws is told with its name") {
  const auto refusal = [](const std::string& model) {
    return message_of<UsageError>([&] {
      const TrainingTask task = task_of(model, "points");
      model::build_forward(task.model, task.input, 4);
    });
  };
  CHECK(refusal("stateful") == "model 'stateful' of plugin 'faulty': no states");
  CHECK(refusal("throwing") == "model 'throwing' of plugin 'faulty': no layers");
  CHECK(refusal("unmade") == "model 'unmade' of plugin 'faulty': it threw what is no std::exception");
  CHECK(refusal("hollow") == "model 'hollow' has no function forward: give it its layers");
}

TEST_CASE("a plugin's data set gets the transforms that it declares where no others are asked for") {
  CHECK(task_of("mlp", "points").train_set->note() == "flip | none");
  CHECK(task_of("mlp", "points", {"--transform=pad-crop=2"}).train_set->note() == "pad-crop=2 | none");
}

TEST_CASE("a plugin's model has the label smoothing that it declares where no other is asked for") {
  const auto smoothing = [](const std::vector<std::string>& more) {
    return task_of("smoothed", "points", more).model.label_smoothing;
  };
  CHECK(smoothing({}) == 0.25F);
  CHECK(smoothing({"--label-smoothing=0.5"}) == 0.5F);
  CHECK(smoothing({"--label-smoothing=0"}) == 0);
}

TEST_CASE("a plugin's file that was cut off is refused before it is loaded") {
  const tests::TemporaryFolder folder;
  const auto cut = folder.path() / "cut.so";
  const std::string whole = tests::contents(file);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{4096}}) {
    tests::write_file(cut, whole.substr(0, bytes));
    CHECK(message_of<UsageError>([&] { load_plugins({cut}); }) ==
          "--plugin " + cut.string() + ": is cut off: copy or build it again");
  }
}

/// Every function of it throws.
struct Broken : data::Dataset {
  std::int64_t size() const override { throw std::runtime_error("no size"); }
  const data::SampleSpec& spec() const override { throw std::runtime_error("no spec"); }
  void get(std::int64_t, std::int64_t, std::span<std::byte>, std::span<std::byte>) const override {
    throw std::runtime_error("no sample");
  }
  data::DatasetPtr as_bytes() const override { throw std::runtime_error("no bytes"); }
  data::DatasetPtr as_kept(std::int64_t) const override { throw std::runtime_error("no items"); }
  std::int64_t kept() const override { throw std::runtime_error("no count"); }
  std::string note() const override { throw 42; }
};

TEST_CASE("what a function of a data set throws is told with the function's name") {
  const data::DatasetPtr samples = with_named_errors(std::make_shared<Broken>(), "the test set");
  CHECK(message_of<DataError>([&] { samples->size(); }) == "the test set, size: no size");
  CHECK(message_of<DataError>([&] { samples->spec(); }) == "the test set, spec: no spec");
  CHECK(message_of<DataError>([&] { samples->as_bytes(); }) == "the test set, as_bytes: no bytes");
  CHECK(message_of<DataError>([&] { samples->as_kept(0); }) == "the test set, as_kept: no items");
  CHECK(message_of<DataError>([&] { samples->kept(); }) == "the test set, kept: no count");
  CHECK(message_of<DataError>([&] { samples->note(); }) ==
        "the test set, note: it threw what is no std::exception");
}

enum class Fault { none, no_output, no_run, kernel_throws, infer_throws, run_throws };

/// An op with one fault.
struct Faulty : kernels::ExternalRules {
  explicit Faulty(Fault which) : fault(which) {}
  std::string plugin() const override { return "test"; }
  std::string name() const override { return "odd"; }
  kernels::Types infer(kernels::TypeSpan in) const override {
    if (fault == Fault::infer_throws) throw std::runtime_error("no type");
    return fault == Fault::no_output ? kernels::Types{} : kernels::Types{in[0]};
  }
  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo&) const override {
    if (fault == Fault::kernel_throws) throw std::runtime_error("no kernel");
    if (fault == Fault::no_run) return {};
    if (fault == Fault::run_throws)
      return {.run = [](const kernels::Addresses&) { throw std::runtime_error("no numbers"); }};
    return {.run = [](const kernels::Addresses&) {}};
  }
  Fault fault;
};

void differentiate(const ExternalOp& op, model::Backward& backward) {
  backward.add_gradients(op, {backward.output_gradient()}, {0});
}

/// Why a model with this op between two layers is not planned.
std::string refusal_of(const ExternalOp& op, model::Gradient<ExternalOp> gradient) {
  const auto device = kernels::make_cpu_device(1);
  const model::Model model{.name = "test", .forward = [&](Tensor x) {
                             x = linear(x, "fc1", 4);
                             x = model::apply(x.graph(), op, gradient, {x}, "middle");
                             return linear(x, "fc2", 2);
                           }};
  return message_of<UsageError>([&] {
    make_plan(model, {.shape = {3}, .num_classes = 2, .target_shape = {}}, {.key = {.batch = 4}}, *device,
              {});
  });
}

std::string refusal_of(Fault fault) {
  return refusal_of({std::make_shared<Faulty>(fault)}, differentiate);
}

TEST_CASE("an op that leaves out a part is told with its layer or plugin") {
  CHECK(refusal_of(Fault::none).empty());
  CHECK(refusal_of(Fault::no_output) ==
        "layer 'middle' (odd): infer gives no output: give the type of one or more");
  CHECK(refusal_of(Fault::no_run) == "op 'odd' of plugin 'test': its cpu_kernel gives nothing to run");
  CHECK(refusal_of(Fault::kernel_throws) == "op 'odd' of plugin 'test': no kernel");
  CHECK(refusal_of(ExternalOp{}, differentiate) == "layer 'middle' (external): its ExternalOp has no rules");
  CHECK(
      refusal_of({std::make_shared<Faulty>(Fault::none)}, nullptr) ==
      "layer 'middle' (odd): it has no gradient, and parameters before it learn: give `apply` its function");
}

TEST_CASE("what an op throws in a launch is told with op and plugin") {
  const auto device = kernels::make_cpu_device(1);
  const kernels::TensorDesc tensor{.dtype = DType::f32, .shape = {2}, .layout = {}};
  kernels::KernelIo io{.inputs = {tensor}, .outputs = {tensor}};
  const ExternalOp op{std::make_shared<Faulty>(Fault::run_throws)};
  kernels::choose_layouts(*device, op, io);
  const auto kernel = kernels::kernel_for(*device, op, io);
  const auto stream = device->make_stream();
  std::array<float, 2> x{};
  std::array<float, 2> y{};
  const std::array<void*, 2> addresses{x.data(), y.data()};
  CHECK(message_of<UsageError>([&] { kernel->bind(addresses, nullptr)->launch(*stream); }) ==
        "run of op 'odd' of plugin 'test': no numbers");
}

TEST_CASE("what an op's types or gradient throw is told with layer, op and plugin") {
  CHECK(refusal_of(Fault::infer_throws) ==
        "layer 'middle' (odd): infer of op 'odd' of plugin 'test': no type");
  const auto throwing = [](const ExternalOp&, model::Backward&) {
    throw std::runtime_error("only 2 dimensions");
  };
  CHECK(refusal_of({std::make_shared<Faulty>(Fault::none)}, throwing) ==
        "layer 'middle': gradient of op 'odd' of plugin 'test': only 2 dimensions");
}

}  // namespace
}  // namespace lockstep::runtime
