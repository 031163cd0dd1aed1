#include "tests/bench/limits/step.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tests/bench/limits/comparison.h"
#include "tests/bench/limits/machine.h"
#include "tests/bench/limits/workloads.h"

namespace lockstep::bench {
namespace {

using Json = nlohmann::json;
using shares::KernelTime;

/// Of oneDNN; equal work is measured once.
class OnednnTimes {
 public:
  double seconds_of(const Comparison& comparison) {
    const auto [at, is_new] = known_.try_emplace(comparison.key(), 0);
    if (is_new) at->second = comparison.onednn();
    return comparison.count * at->second;
  }

 private:
  std::map<std::string, double> known_;
};

double limit_of(const KernelTime& kernel, const StepTable& table, kernels::Device& device,
                OnednnTimes& onednn) {
  double computed = 0;
  if (kernel.node != nullptr) {
    const kernels::KernelIo io = table.plan.graph.io(*kernel.node);
    for (Compare* const compare : {convolutions_of, products_of}) {
      for (const Comparison& comparison : compare(*kernel.node->op, io, device)) {
        computed += onednn.seconds_of(comparison);
      }
    }
  }
  if (computed == 0) {
    computed = std::max(kernel.bytes / table.bytes_per_s, kernel.flops / table.flops_per_s);
  }
  return std::min(kernel.seconds, computed);
}

Json json_of(const KernelTime& kernel) {
  return {{"ms", 1e3 * kernel.seconds}, {"limit_ms", 1e3 * kernel.limit_seconds}};
}

}  // namespace

StepTable measure_step(const std::string& workload, bool bf16, int threads) {
  const auto device = kernels::make_cpu_device(threads);
  const auto product = [](bool in_bf16) { return 1e9 * matmul_gflops(512, 512, 512, in_bf16); };
  StepTable table{.workload = workload,
                  .bf16 = bf16,
                  .threads = threads,
                  .bytes_per_s = 1e9 * memcpy_gigabytes(threads),
                  .flops_per_s = std::max(product(false), bf16 ? product(true) : 0),
                  .plan = plan_of(workload, bf16, *device),
                  .kernels = {}};
  table.kernels = shares::time_step(table.plan, *device);
  OnednnTimes onednn;
  for (KernelTime& kernel : table.kernels) kernel.limit_seconds = limit_of(kernel, table, *device, onednn);
  return table;
}

Json StepTable::json() const {
  const KernelTime all = sum_of(kernels);
  Json by_kind = Json::array();
  for (const KernelTime& kind : sums_of_kinds(kernels)) {
    Json row = json_of(kind);
    row.update({{"kind", kind.name},
                {"count", kind.count},
                {"step_share", kind.seconds / all.seconds},
                {"bytes", kind.bytes},
                {"bandwidth_ms", 1e3 * kind.bytes / bytes_per_s},
                {"share", kind.limit_seconds / kind.seconds}});
    by_kind.push_back(std::move(row));
  }
  Json each = Json::array();
  for (const KernelTime& kernel : kernels) {
    each.push_back(json_of(kernel));
    each.back()["kernel"] = kernel.name;
  }
  Json table = json_of(all);
  table.update({{"model", workload},
                {"amp", bf16 ? "bf16" : "off"},
                {"threads", threads},
                {"memcpy_gb_per_s", 1e-9 * bytes_per_s},
                {"matmul_gflops", 1e-9 * flops_per_s},
                {"kinds", by_kind},
                {"kernels", each}});
  return table;
}

void StepTable::print() const {
  const KernelTime all = sum_of(kernels);
  fmt::print("step of {}, {}, {} thread(s): kernels alone; memcpy {:.1f} GB/s, products {:.0f} GFLOP/s\n",
             workload, bf16 ? "bf16" : "f32", threads, 1e-9 * bytes_per_s, 1e-9 * flops_per_s);
  fmt::print("  {:<28} {:>5} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6}\n", "kind", "count", "ours ms", "step %",
             "MB", "memcpy ms", "limit ms", "share");
  const auto print_row = [&](const KernelTime& row) {
    fmt::print("  {:<28} {:>5} {:>9.4f} {:>6.1f} {:>9.2f} {:>9.4f} {:>9.4f} {:>6.2f}\n", row.name, row.count,
               1e3 * row.seconds, 100 * row.seconds / all.seconds, 1e-6 * row.bytes,
               1e3 * row.bytes / bytes_per_s, 1e3 * row.limit_seconds, row.limit_seconds / row.seconds);
  };
  for (const KernelTime& kind : sums_of_kinds(kernels)) print_row(kind);
  print_row(all);
}

}  // namespace lockstep::bench
