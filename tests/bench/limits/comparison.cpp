#include "tests/bench/limits/comparison.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "tests/bench/limits/workloads.h"
#include "tests/gpu/shares/timing.h"

namespace lockstep::bench {
namespace {

using Json = nlohmann::json;

/// Other users of the host only slow a side: what is below the share is measured again, and the least of each
/// side counts.
void measure(ComparedRow& row, const Comparison& comparison) {
  constexpr int most = 5;
  row.ours_ms = row.onednn_ms = std::numeric_limits<double>::infinity();
  for (int i = 0; i < most && (i == 0 || row.is_slow()); ++i) {
    row.ours_ms = std::min(row.ours_ms, 1e3 * comparison.ours());
    row.onednn_ms = std::min(row.onednn_ms, 1e3 * comparison.onednn());
  }
}

void add_rows(const runtime::Plan& plan, Compare* compare, kernels::Device& device,
              std::vector<ComparedRow>& rows) {
  std::map<std::string, std::size_t> known;
  for (const model::Node& node : plan.graph.nodes()) {
    for (const Comparison& comparison : compare(*node.op, plan.graph.io(node), device)) {
      const auto [at, is_new] = known.try_emplace(comparison.key(), rows.size());
      if (is_new) {
        rows.push_back({.layer = node.layer,
                        .what = comparison.what,
                        .dtype = std::string(name_of(comparison.dtype)),
                        .flops = comparison.flops});
        measure(rows.back(), comparison);
      }
      rows[at->second].count += comparison.count;
    }
  }
}

constexpr double seconds_a_kernel = 0.3;

double gflops(const ComparedRow& row, double ms) {
  return row.flops / ms * 1e-6;
}

}  // namespace

std::string Comparison::key() const {
  return fmt::format("{} {}", name_of(dtype), what);
}

ComparisonTable measure(const std::string& title, Compare* compare, const std::string& workload,
                        std::optional<bool> bf16, int threads) {
  const auto device = kernels::make_cpu_device(threads);
  ComparisonTable table{.title = title, .workload = workload, .threads = threads, .rows = {}};
  for (const bool half : {false, true}) {
    if (bf16.value_or(half) == half) add_rows(plan_of(workload, half, *device), compare, *device, table.rows);
  }
  return table;
}

std::size_t ComparisonTable::slow() const {
  return static_cast<std::size_t>(std::ranges::count_if(rows, &ComparedRow::is_slow));
}

Json ComparisonTable::json() const {
  Json all = Json::array();
  for (const ComparedRow& row : rows) {
    all.push_back({{"layer", row.layer},
                   {"what", row.what},
                   {"dtype", row.dtype},
                   {"count", row.count},
                   {"ours_ms", row.ours_ms},
                   {"onednn_ms", row.onednn_ms},  // null: none
                   {"ours_gflops", gflops(row, row.ours_ms)},
                   {"onednn_gflops", gflops(row, row.onednn_ms)},
                   {"share", row.share()}});
  }
  return {{"model", workload}, {"threads", threads}, {title, all}};
}

void ComparisonTable::print() const {
  fmt::print("{} of {}, {} thread(s): share of the limit, the faster of oneDNN alone and ours; must be {}\n",
             title, workload, threads, least_share);
  fmt::print("  {:<5} {:>5} {:>9} {:>9} {:>8} {:>8} {:>6}  {}\n", "dtype", "count", "ours ms", "oneDNN ms",
             "GFLOP/s", "oneDNN's", "share", "what (first layer)");
  for (const ComparedRow& row : rows) {
    fmt::print("  {:<5} {:>5} {:>9.4f} {:>9.4f} {:>8.1f} {:>8.1f} {:>6.2f}{} {} ({})\n", row.dtype, row.count,
               row.ours_ms, row.onednn_ms, gflops(row, row.ours_ms), gflops(row, row.onednn_ms), row.share(),
               row.is_slow() ? '!' : ' ', row.what, row.layer);
  }
  fmt::print("  {} of {} below {}\n", slow(), rows.size(), least_share);
}

double seconds_of_kernel(const model::Op& op, const kernels::KernelIo& io, kernels::Device& device) {
  return shares::seconds_of_launch(device, *op.kernel(device, io), io, {}, seconds_a_kernel);
}

}  // namespace lockstep::bench
