#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/commands/commands.h"
#include "runtime/machine/open_device.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"
#include "tests/gpu/shares/peaks.h"
#include "tests/gpu/shares/step.h"
#include "tests/gpu/shares/timing.h"
#include "tests/support/device_under_test.h"

// What a training step's kernels take, and how near they come to what the device can do: usage as `trainer
// plan`, e.g. kernel_shares --device cuda --model convnet --dataset synthetic --image-shape 1x28x28
// --batch-size 4096
namespace lockstep::shares {
namespace {

constexpr double least_share = 0.01;

/// By what the kernel takes: products or memory.
double seconds_at_peaks(const KernelTime& kernel, const Peaks& peaks) {
  return std::max(kernel.flops / peaks.flops, kernel.bytes / peaks.bytes);
}

void print(const std::vector<KernelTime>& kernels, const Peaks& peaks) {
  const KernelTime all = sum_of(kernels);
  fmt::print("{:<36} {:>10} {:>7} {:>10} {:>10} {:>8} {:>8} {:>8}\n", "kernel", "us", "step %", "MFLOP", "MB",
             "FLOP %", "byte %", "of peak");
  const auto print_row = [&](const KernelTime& kernel) {
    fmt::print("{:<36} {:10.1f} {:7.1f} {:10.1f} {:10.2f} {:8.1f} {:8.1f} {:7.1f}%\n", kernel.name,
               1e6 * kernel.seconds, 100 * kernel.seconds / all.seconds, kernel.flops / 1e6,
               kernel.bytes / 1e6, 100 * kernel.flops / kernel.seconds / peaks.flops,
               100 * kernel.bytes / kernel.seconds / peaks.bytes,
               100 * kernel.limit_seconds / kernel.seconds);
  };
  std::size_t small = 0;
  for (const KernelTime& kernel : kernels) {
    if (kernel.seconds < least_share * all.seconds) {
      ++small;
    } else {
      print_row(kernel);
    }
  }
  fmt::print("\nby kind:\n");
  for (const KernelTime& kind : sums_of_kinds(kernels)) print_row(kind);
  fmt::print(
      "a step's kernels take {:.3f} ms alone, {} of {} under 1 % each; at the peaks they would take {:.0f} % "
      "of it\n",
      1e3 * all.seconds, small, kernels.size(), 100 * all.limit_seconds / all.seconds);
}

void run(const std::vector<std::string>& arguments) {
  if (runtime::asks_for_help(arguments)) {
    fmt::print("usage: kernel_shares --model NAME [options], those of `trainer plan`\n{}",
               runtime::options_help());
    return;
  }
  const runtime::Options options = runtime::parse_options(arguments);
  const runtime::TrainingTask task = runtime::make_task_without_data(options);
  const comm::World world;
  const auto device = runtime::open_device(options, world);
  const runtime::PlanRequest request =
      runtime::training_request(options, {.batch = options.batch_size}, 1, {});
  const runtime::Plan plan =
      runtime::make_plan(task.model, task.input, request, *device, runtime::plan_constraints(options));
  if (tests::is_simulated(*device)) fmt::print("SIMULATED: no figure here is a GPU's\n");
  fmt::print("{}, {}\n{}, batch {}, in {}, products at {} precision, convolutions at {}\n", device->name(),
             device->instruction_set(), task.model.name, options.batch_size, name_of(plan.compute_dtype),
             name_of(options.matmul_precision), conv_name_of(plan.conv_precision));
  const Peaks peaks = measure_peaks(*device, plan.compute_dtype, options.matmul_precision);
  fmt::print("peaks measured here: {:.1f} TFLOP/s by a matrix product, {:.0f} GB/s by a copy\n\n",
             peaks.flops / 1e12, peaks.bytes / 1e9);
  std::vector<KernelTime> kernels = time_step(plan, *device);
  for (KernelTime& kernel : kernels) kernel.limit_seconds = seconds_at_peaks(kernel, peaks);
  print(kernels, peaks);
}

}  // namespace
}  // namespace lockstep::shares

int main(int argc, char** argv) {
  try {
    lockstep::shares::run({argv + 1, argv + argc});
    return 0;
  } catch (const lockstep::UsageError& error) {
    fmt::print(stderr, "kernel_shares: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_shares: {}\n", error.what());
    return 4;
  }
}
