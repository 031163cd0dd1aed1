#include "tests/vendor/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/dispatch.h"
#include "model/spec_op.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"
#include "tests/unit/kernels/conv2d_cases.h"

namespace lockstep::vendor {
namespace {

using namespace kernels;

std::string type_list(const std::vector<TensorDesc>& tensors) {
  std::vector<std::string> types;
  for (const TensorDesc& tensor : tensors) types.push_back(tensor.type().str());
  return fmt::format("{}", fmt::join(types, ", "));
}

void add(const std::string& op, const Kernel& kernel, const KernelIo& io, const Arithmetic& arithmetic,
         Answers& answers) {
  const auto plan = kernel.library_plan();
  if (!plan) return;
  const std::string question =
      fmt::format("{}: {} -> {}, {}", op, type_list(io.inputs), type_list(io.outputs), arithmetic.name);
  answers[question] = {.layout = io.inputs.front().layout_or_row_major().str(),
                       .plan = plan->name,
                       .notes = plan->notes,
                       .workspace_bytes = kernel.workspace_bytes()};
}

template <class Op>
void ask(const Device& device, const Op& op, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs,
         const Arithmetic& arithmetic, Answers& answers) {
  KernelIo io{.inputs = std::move(inputs), .outputs = std::move(outputs)};
  choose_layouts(device, op, io);
  const std::string attributes = model::attributes_of(op);
  add(fmt::format("{}{}{}", Op::name, attributes.empty() ? "" : " ", attributes), *kernel_for(device, op, io),
      io, arithmetic, answers);
}

DType type_of(const Arithmetic& arithmetic) {
  if (arithmetic.amp == "off") return DType::f32;
  return arithmetic.amp == "bf16" ? DType::bf16 : DType::f16;
}

}  // namespace

bool Answer::has(const std::string& note) const {
  return std::ranges::any_of(notes, [&](const std::string& word) { return word.starts_with(note); });
}

void ask_for_model(const Device& device, const std::string& model, const Arithmetic& arithmetic,
                   Answers& answers) {
  runtime::Options options = runtime::parse_options(
      {"--model", model, "--dataset", "synthetic", "--batch-size", "32", "--amp", arithmetic.amp,
       "--matmul-precision", arithmetic.matmul_precision, "--conv-precision", arithmetic.conv_precision});
  const runtime::TrainingTask task = runtime::make_task_without_data(options);
  const runtime::PlanConstraints constraints = runtime::plan_constraints(options);
  for (const runtime::Mode mode : {runtime::Mode::train, runtime::Mode::evaluate}) {
    const runtime::PlanRequest request =
        runtime::training_request(options, {.mode = mode, .batch = options.batch_size}, 1, {});
    const runtime::Plan plan = runtime::make_plan(task.model, task.input, request, device, constraints);
    for (std::size_t i = 0; i < plan.graph.nodes().size(); ++i) {
      const runtime::Launch& launch = plan.launches.nodes[i];
      if (launch.kernel == nullptr) continue;
      const model::Op& op = *plan.graph.nodes()[i].op;
      const std::string attributes = op.attributes();
      add(fmt::format("{}{}{}", op.name(), attributes.empty() ? "" : " ", attributes), *launch.kernel,
          launch.io, arithmetic, answers);
    }
  }
}

void ask_for_odd_shapes(const Device& device, const Arithmetic& arithmetic, Answers& answers) {
  const DType dtype = type_of(arithmetic);
  const MatmulPrecision precision =
      arithmetic.conv_precision == "tf32" ? MatmulPrecision::high : MatmulPrecision::highest;
  for (const test::ConvolutionCase& c : test::convolution_cases()) {
    const TensorDesc x{dtype, c.x, {}};
    const TensorDesc w{dtype, c.w, {}};
    const TensorDesc b{dtype, {c.w[0]}, {}};
    const TensorDesc dw{DType::f32, c.w, {}};
    const TensorDesc y{dtype, Conv2d{c.geometry}.infer(Types{x.type(), w.type()}).front().shape, {}};
    for (const Activation activation : {Activation::none, Activation::relu}) {
      const Conv2d forward{.geometry = c.geometry, .activation = activation, .precision = precision};
      ask(device, forward, {x, w, b}, {y}, arithmetic, answers);
    }
    ask(device, Conv2d{.geometry = c.geometry, .precision = precision}, {x, w}, {y}, arithmetic, answers);
    ask(device, Conv2dBackwardData{.geometry = c.geometry, .precision = precision}, {y, w}, {x}, arithmetic,
        answers);
    ask(device, Conv2dBackwardWeights{.geometry = c.geometry, .precision = precision}, {x, y}, {dw},
        arithmetic, answers);
  }
}

}  // namespace lockstep::vendor
