#include <cmath>
#include <optional>

#include "comm/make_communicator.h"
#include "kernels/base/philox.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using namespace model;

/// One line per op: a network of it behind a layer with parameters, whose gradients pass through it.
struct Case {
  const char* op;
  Tensor (*network)(Tensor images);  ///< (N, 3, 7, 6) to (N, 4)
};

Tensor stem(Tensor x) {
  return conv2d(x, "stem", {.out_channels = 5, .kernel = 3, .padding = 1});
}
Tensor head(Tensor x) {
  return linear(flatten(x), "head", 4);
}

const Case cases[] = {
    {"linear", [](Tensor x) { return head(linear(flatten(x), "fc", 9)); }},
    {"linear without bias", [](Tensor x) { return head(linear(flatten(x), "fc", 9, {.bias = false})); }},
    {"conv2d", [](Tensor x) { return head(conv2d(stem(x), "c", {.out_channels = 6, .kernel = 3})); }},
    {"conv2d, stride, padding, dilation",
     [](Tensor x) {
       return head(
           conv2d(stem(x), "c", {.out_channels = 6, .kernel = 3, .stride = 2, .padding = 2, .dilation = 2}));
     }},
    {"conv2d in groups",
     [](Tensor x) {
       return head(conv2d(x, "c", {.out_channels = 6, .kernel = 1, .groups = 3, .bias = false}));
     }},
    {"relu", [](Tensor x) { return head(relu(stem(x))); }},
    {"relu after linear", [](Tensor x) { return head(relu(linear(flatten(x), "fc", 9))); }},
    {"add, a value used twice",
     [](Tensor x) {
       const Tensor h = stem(x);
       return head(add(relu(h), h));
     }},
    {"max_pool2d",
     [](Tensor x) { return head(max_pool2d(stem(x), {.kernel = 3, .stride = 2, .padding = 1})); }},
    {"max_pool2d after relu", [](Tensor x) { return head(max_pool2d(relu(stem(x)))); }},
    {"avg_pool2d",
     [](Tensor x) { return head(avg_pool2d(stem(x), {.kernel = 3, .stride = 2, .padding = 1})); }},
    {"linear on the last dimension", [](Tensor x) { return head(linear(stem(x), "fc", 3)); }},
    {"a view of parameters: their gradient is a value of its own",
     [](Tensor x) {
       const Tensor w(x.graph(), x.graph().add_parameter("scale", {6, 7}, {.bound = 1}));
       return head(mul(stem(x), permute(w, {1, 0})));
     }},
    {"sharing: two parameters, one gradient",
     [](Tensor x) {
       const Tensor a(x.graph(), x.graph().add_parameter("a", {5, 7, 6}, {.bound = 1}));
       const Tensor b(x.graph(), x.graph().add_parameter("b", {5, 7, 6}, {.bound = 1}));
       return head(add(stem(x), add(a, b)));
     }},
    {"sharing: one weight, two layers",
     [](Tensor x) {
       const Tensor h = relu(linear(flatten(x), "fc", 9));
       const Tensor w(x.graph(), x.graph().add_parameter("w", {1, 9}, {.bound = 1}));
       return head(mul(mul(h, w), w));
     }},
    {"mul, broadcast over channels",
     [](Tensor x) {
       const Tensor gain(x.graph(), x.graph().add_parameter("gain", {5, 1, 1}, {.bound = 1}));
       return head(mul(stem(x), gain));
     }},
    {"a chain over channels, rows and a residual",
     [](Tensor x) {
       const Tensor gain(x.graph(), x.graph().add_parameter("gain", {5, 1, 1}, {.bound = 1}));
       const Tensor row(x.graph(), x.graph().add_parameter("row", {6}, {.bound = 1}));
       const Tensor h = relu(add(mul(stem(x), gain), row));
       return head(add(avg_pool2d(mul(h, row), {.kernel = 1}), mul(h, gain)));
     }},
    {"expand, of a row",
     [](Tensor x) {
       const Tensor row(x.graph(), x.graph().add_parameter("row", {6}, {.bound = 1}));
       return head(add(stem(x), expand(row, {3, 5, 7, 6})));
     }},
    {"expand, as the first operand",
     [](Tensor x) {
       const Tensor row = linear(reshape(x, {1, 378}), "row", 6);
       return head(add(expand(row, {3, 5, 7, 6}), stem(x)));
     }},
    {"reshape and permute of activations",
     [](Tensor x) {
       const Tensor h = permute(stem(x), {0, 2, 3, 1});
       return head(reshape(linear(h, "fc", 2), {3, 84}));
     }},
    {"split and concat, every output used",
     [](Tensor x) {
       const std::vector<Tensor> parts = split(stem(x), {2, 1, 2}, 1);
       return head(concat({mul(parts[2], parts[0]), parts[1], relu(parts[0])}, 1));
     }},
    {"split, an output that nobody used",
     [](Tensor x) {
       return head(split(stem(x), {2, 3}, 1)[1]);
     }},
    {"split between convolutions, its first and last output unused",
     [](Tensor x) {
       const Tensor h = split(relu(stem(x)), {1, 3, 1}, 1)[1];
       return head(max_pool2d(relu(conv2d(h, "c", {.out_channels = 6, .kernel = 3}))));
     }},
    {"concat with what needs no gradient",
     [](Tensor x) {
       return head(concat({x, stem(x), x}, -3));
     }},
    {"concat and split of parameters",
     [](Tensor x) {
       const Tensor a(x.graph(), x.graph().add_parameter("a", {2, 1, 1}, {.bound = 1}));
       const Tensor b(x.graph(), x.graph().add_parameter("b", {7, 1, 1}, {.bound = 1}));
       return head(mul(stem(x), concat({a, split(b, {3, 4}, 0)[0]}, 0)));
     }},
    {"pass-through: one gradient, two consumers",
     [](Tensor x) {
       const Tensor h = stem(x);
       const Tensor g = conv2d(x, "g", {.out_channels = 5, .kernel = 3, .padding = 1});
       const Tensor r = relu(h);
       return head(add(add(h, g), r));
     }},
    {"flatten", [](Tensor x) { return head(linear(flatten(stem(x)), "fc", 5)); }},
    {"flatten, read by two linear layers",
     [](Tensor x) {
       const Tensor flat = flatten(max_pool2d(relu(stem(x))));
       const Tensor a = linear(flat, "a", 1);
       return concat({a, linear(flat, "b", 3)}, 1);
     }},
};

/// A step on one fixed batch, without an update: its loss is a function of the parameters.
class Step {
 public:
  Step(const Case& test, LossKind loss)
      : device_(kernels::make_cpu_device(1)), communicator_(comm::make_communicator({}, {})) {
    const bool classes = loss == LossKind::cross_entropy;
    const InputSpec input{
        .shape = {3, 7, 6}, .num_classes = classes ? 4 : 0, .target_shape = classes ? Shape{} : Shape{4}};
    const Model net{.name = test.op, .forward = test.network, .loss = loss, .label_smoothing = 0.1F};
    plans_.push_back(make_plan(net, input, {.key = {.batch = batch}, .optimizer = frozen}, *device_, {}));
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    ParameterIO(*device_, plans_[0], *memory_).initialise(3);
    Philox(1, 0).normals(
        0, {static_cast<float*>(memory_->input(0)), plans_[0].bytes_of(model::Role::input) / sizeof(float)});
    if (loss == LossKind::mean_squared_error) {
      Philox(1, 1).normals(0, {static_cast<float*>(memory_->target(0)),
                               plans_[0].bytes_of(model::Role::target) / sizeof(float)});
    } else {
      for (std::int64_t i = 0; i < batch; ++i) static_cast<std::int64_t*>(memory_->target(0))[i] = i % 4;
    }
    memory_->host_input(0).state = {.loss_scale = 1.0F / batch, .valid_samples = batch};
  }

  double loss() {
    executor_->run(plans_[0], 0);
    return memory_->host_control(0).loss;
  }

  std::vector<NamedTensor> gradients() {
    loss();
    return ParameterIO(*device_, plans_[0], *memory_).gradients();
  }

  /// Where element `index` (row-major) of a parameter lies.
  float& element(const std::string& name, std::int64_t index) {
    for (const Parameter& parameter : plans_[0].graph.parameters()) {
      const Value& value = plans_[0].graph.value(parameter.value);
      if (value.name != name) continue;
      Shape position = value.type.shape;
      for (std::size_t axis = position.rank(); axis-- > 0; index /= value.type.shape[axis]) {
        position[axis] = index % value.type.shape[axis];
      }
      return static_cast<float*>(memory_->parameter(name))[value.layout->offset(position)];
    }
    throw std::logic_error("no parameter " + name);
  }

 private:
  static constexpr int batch = 3;
  inline static const OptimizerOptions frozen{.kind = OptimizerKind::sgd, .learning_rate = 0};

  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

/// The loss is f32, below 2 and known to a few 1.2e-7: its differences by h to a few 1e-4. A kink that is not
/// told apart from that moves their mean by half of `noise` at most.
constexpr float h = 0x1p-10F;
constexpr double noise = 1e-3;

/// None where the loss has a kink within h (relu, pooling): the differences to both sides are not the same.
std::optional<double> difference(Step& step, float& element) {
  const float before = element;
  const double here = step.loss();
  element = before + h;
  const double above = (step.loss() - here) / h;
  element = before - h;
  const double below = (here - step.loss()) / h;
  element = before;
  if (std::abs(above - below) > noise) return std::nullopt;
  return (above + below) / 2;
}

TEST_CASE("every op's gradient in a graph is what finite differences of the loss say") {
  const LossKind loss = GENERATE(LossKind::cross_entropy, LossKind::mean_squared_error);
  for (const Case& test : cases) {
    Step step(test, loss);
    int kinks = 0;
    int checked = 0;
    for (const NamedTensor& gradient : step.gradients()) {
      const auto count = static_cast<std::int64_t>(gradient.values.size());
      for (std::int64_t index = 0; index < count; index += std::max<std::int64_t>(1, count / 7)) {
        INFO(test.op << ": " << gradient.name << "[" << index << "]");
        const auto wanted = difference(step, step.element(gradient.name, index));
        ++(wanted ? checked : kinks);
        if (wanted) CHECK(gradient.values[static_cast<std::size_t>(index)] == Approx(*wanted).margin(noise));
      }
    }
    INFO(test.op << ": " << kinks << " kinks");
    CHECK(kinks * 4 < checked);
  }
}

}  // namespace
}  // namespace lockstep::runtime
