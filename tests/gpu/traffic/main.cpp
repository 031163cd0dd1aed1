#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/base/error.h"
#include "runtime/machine/open_device.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"
#include "tests/gpu/shares/step.h"
#include "tests/simgpu/engine/traffic.h"

// Launches each kernel of a training step once, on the machine in software, and prints what it moved, one
// line a launch: kernel, op, operands, grid, bytes needed, bytes moved; between tabs. Usage as `trainer
// plan`.
namespace lockstep::shares {
namespace {

constexpr std::size_t most_operands = 8;

std::string text_of(const std::vector<kernels::TensorDesc>& tensors) {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) {
    if (texts.size() == most_operands) return fmt::format("{} ...", fmt::join(texts, " "));
    texts.push_back(fmt::format("{}[{}]", name_of(tensor.dtype), tensor.shape.str()));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

/// Without the layer: equal launches of several layers are one line for whoever reads this.
std::string op_of(const StepKernel& kernel) {
  if (kernel.node != nullptr) return kernel.node->op->name();
  return kernel.name.substr(0, kernel.name.find(" of "));
}

void run(const std::vector<std::string>& arguments) {
  const runtime::Options options = runtime::parse_options(arguments);
  const runtime::TrainingTask task = runtime::make_task_without_data(options);
  const auto device = runtime::open_device(options, comm::World{});
  const runtime::PlanRequest request =
      runtime::training_request(options, {.batch = options.batch_size}, 1, {});
  const runtime::Plan plan =
      runtime::make_plan(task.model, task.input, request, *device, runtime::plan_constraints(options));
  for (const StepKernel& kernel : kernels_of(plan)) {
    LoneLaunch launch(*device, *kernel.launch->kernel, kernel.launch->io, kernel.contents);
    simgpu::take_traffic();  // what filled the operands
    simgpu::start_counting_traffic();
    launch.run();
    const auto& io = kernel.launch->io;
    for (const simgpu::KernelTraffic& traffic : simgpu::take_traffic()) {
      fmt::print("{}\t{}\t{} -> {}\t{}\t{}\t{}\n", traffic.kernel, op_of(kernel), text_of(io.inputs),
                 text_of(io.outputs), traffic.grid, traffic.needed, traffic.moved);
    }
  }
}

}  // namespace
}  // namespace lockstep::shares

int main(int argc, char** argv) {
  try {
    lockstep::shares::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_traffic: {}\n", error.what());
    return 4;
  }
}
