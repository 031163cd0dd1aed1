// What a plugin brings: names, and ops whose kernels run on the CPU alone.
#include "runtime/plugin/plugin.h"

#include <array>

#include "kernels/base/error.h"
#include "kernels/dispatch.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "runtime/plugin/load_plugins.h"
#include "tests/support/catch.h"
#include "tests/support/device_under_test.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using kernels::ExternalOp;
using tests::contains;
using tests::message_of;

/// y = factor x, by way of the workspace.
struct Scaled : kernels::ExternalRules {
  explicit Scaled(float times) : factor(times) {}
  std::string plugin() const override { return "test"; }
  std::string name() const override { return "scaled"; }
  std::string attributes() const override { return "factor " + std::to_string(factor); }
  kernels::Types infer(kernels::TypeSpan in) const override {
    kernels::require_count(in, 1, 1);
    kernels::require_dtype("x", in[0], DType::f32);
    return {in[0]};
  }
  kernels::ExternalKernel cpu_kernel(const kernels::KernelIo& io) const override {
    const auto n = static_cast<std::size_t>(io.outputs[0].shape.elements());
    return {.run =
                [n, f = factor](const kernels::Addresses& a) {
                  auto* const scratch = a.workspace<float>();
                  for (std::size_t i = 0; i < n; ++i) scratch[i] = f * a.in(0)[i];
                  std::copy_n(scratch, n, a.out(0));
                },
            .workspace_bytes = n * sizeof(float)};
  }
  float factor;
};

ExternalOp scaled(float factor) {
  return {std::make_shared<Scaled>(factor)};
}

void differentiate(const ExternalOp& op, model::Backward& backward) {
  backward.add_gradients(op, {backward.output_gradient()}, {0});
}

model::Model model_with(float factor) {
  return {.name = "scaled_mlp", .forward = [factor](model::Tensor x) {
            x = model::apply(x.graph(), scaled(factor), differentiate, {model::linear(x, "fc1", 4)},
                             "scaled");
            return model::linear(x, "fc2", 2);
          }};
}

Plan plan_with(float factor, const kernels::Device& device) {
  return make_plan(model_with(factor), {.shape = {3}, .num_classes = 2, .target_shape = {}},
                   {.key = {.batch = 4}}, device, {});
}

model::ZooEntry model_named(const std::string& name) {
  model::ZooEntry entry = model::find_model("mlp", {});
  entry.name = name;
  return entry;
}

data::DatasetEntry dataset_named(const std::string& name) {
  data::DatasetEntry entry = data::datasets().front();
  entry.name = name;
  return entry;
}

OpEntry op_named(const std::string& name) {
  return {.name = name, .what = "", .plugin = ""};
}

TEST_CASE("what plugins add stands behind what is built in") {
  Registry registry = load_plugins({}).registry;
  registry.begin_plugin("first");
  registry.add_model(model_named("lenet"));
  registry.add_dataset(dataset_named("rings"));
  registry.add_op(op_named("scaled"));
  CHECK(registry.models().size() == model::zoo().size() + 1);
  CHECK(model::find_model(registry.models(), "lenet", {}).name == "lenet");
  CHECK(data::find_dataset(registry.datasets(), "rings").name == "rings");
  CHECK(registry.ops().back().plugin == "first");
  CHECK(message_of<UsageError>([&] { model::find_model(registry.models(), "lenot", {}); }) ==
        "unknown model 'lenot', did you mean 'lenet'? `trainer models` lists them");
}

TEST_CASE("a name that is taken is refused with both sides") {
  Registry registry = load_plugins({}).registry;
  registry.begin_plugin("first");
  registry.add_model(model_named("lenet"));
  const auto refusal = [&](auto add) { return message_of<UsageError>([&] { add(); }); };
  CHECK(refusal([&] { registry.begin_plugin("first"); }) ==
        "plugin 'first': plugin 'first' is in plugin 'first' already; give it a name of its own");
  registry.begin_plugin("second");
  CHECK(refusal([&] { registry.add_model(model_named("lenet")); }) ==
        "plugin 'second': model 'lenet' is in plugin 'first' already; give it a name of its own");
  CHECK(refusal([&] { registry.add_model(model_named("mlp")); }) ==
        "plugin 'second': model 'mlp' is built in; give it a name of its own");
  CHECK(refusal([&] { registry.add_dataset(dataset_named("mnist")); }) ==
        "plugin 'second': data set 'mnist' is built in; give it a name of its own");
  for (const char* op : {"conv2d", "relu", "mul", "permute"}) {
    CHECK(refusal([&] { registry.add_op(op_named(op)); }) ==
          "plugin 'second': op '" + std::string(op) + "' is built in; give it a name of its own");
  }
  CHECK(refusal([&] { registry.add_op(op_named("")); }) == "plugin 'second' gives one op no name");
  model::ZooEntry without_make = model_named("half");
  without_make.make = nullptr;
  CHECK(refusal([&] { registry.add_model(without_make); }) ==
        "plugin 'second': model 'half' has no function make");
  data::DatasetEntry without_spec = dataset_named("blind");
  without_spec.spec = nullptr;
  CHECK(refusal([&] { registry.add_dataset(without_spec); }) ==
        "plugin 'second': data set 'blind' has no function spec");
}

TEST_CASE("a file that is no plugin is refused by name") {
  const tests::TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& file) {
    return message_of<UsageError>([&] { load_plugins({file}); });
  };
  const auto file = folder.path() / "plugin.so";
  CHECK(refusal(file) == "--plugin " + file.string() + ": no such file");
  const auto loop = folder.path() / "loop.so";
  std::filesystem::create_symlink("loop.so", loop);
  CHECK_THAT(refusal(loop), contains("--plugin " + loop.string() + ": cannot be reached: Too many levels"));
  tests::write_file(file, "model = mlp, which is no ELF file of 64 bytes or more, whatever its name says");
  CHECK_THAT(refusal(file),
             contains("--plugin " + file.string() + ": cannot be loaded: ") && contains("ELF"));
}

TEST_CASE("an op of a plugin computes on the CPU, with scratch memory of its own") {
  const auto device = kernels::make_cpu_device(1);
  const kernels::TensorDesc tensor{.dtype = DType::f32, .shape = {2, 3}, .layout = {}};
  kernels::KernelIo io{.inputs = {tensor}, .outputs = {tensor}};
  kernels::choose_layouts(*device, scaled(3), io);
  const auto kernel = kernels::kernel_for(*device, scaled(3), io);
  REQUIRE(kernel->workspace_bytes() == 6 * sizeof(float));
  const auto stream = device->make_stream();
  std::array<float, 6> x{1, 2, 3, 4, 5, 6};
  std::array<float, 6> y{};
  std::array<float, 6> scratch{};
  const std::array<void*, 2> addresses{x.data(), y.data()};
  kernel->bind(addresses, scratch.data())->launch(*stream);
  CHECK(y == std::array<float, 6>{3, 6, 9, 12, 15, 18});
}

TEST_CASE("operands that an op of a plugin refuses are named with op and layer") {
  const model::Model net{.name = "test", .forward = [](model::Tensor x) {
                           return model::apply(x.graph(), scaled(2), differentiate, {x}, "first");
                         }};
  CHECK(message_of<UsageError>([&] {
          build_forward(net, {.shape = {2}, .num_classes = 2, .target_shape = {}, .dtype = DType::i64}, 4);
        }) == "layer 'first' (scaled): x is i64 4x2, must be f32");
}

TEST_CASE("a plan shows a plugin's op, and ranks compare it; a GPU has no kernel for it") {
  const auto device = tests::make_device_under_test(1);
  if (!device->is_cpu()) {
    CHECK_THAT(message_of<UsageError>([&] { plan_with(2, *device); }),
               contains("op 'scaled' of plugin 'test' has no CUDA kernel"));
    return;
  }
  const Plan plan = plan_with(2, *device);
  CHECK_THAT(to_text(plan, {}), contains("scaled factor 2.0"));
  const std::string signature = exchange_signature(plan, *device, {});
  CHECK_THAT(signature, contains(":scaled scaled factor 2.0"));
  CHECK(signature != exchange_signature(plan_with(3, *device), *device, {}));
}

TEST_CASE("an op that its plugin does not register is refused") {
  const model::Graph graph =
      build_forward(model_with(2), {.shape = {3}, .num_classes = 2, .target_shape = {}}, 4);
  const auto refusal = [&](const std::vector<OpEntry>& ops) {
    return message_of<UsageError>([&] { require_registered(graph, ops); });
  };
  CHECK(refusal({{.name = "scaled", .what = "", .plugin = "test"}}).empty());
  for (const char* other : {"", "other"}) {
    CHECK(refusal({{.name = "scaled", .what = "", .plugin = other}}) ==
          "layer 'scaled': plugin 'test' registers no op 'scaled'; its register function calls add_op");
  }
}

}  // namespace
}  // namespace lockstep::runtime
