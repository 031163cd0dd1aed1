#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/limits/machine.h"
#include "tests/bench/limits/step.h"

// What this machine can do, for one thread and for two: usage: limits [--json] [--threads N]
namespace lockstep::bench {
namespace {

using Json = nlohmann::json;

struct Product {
  std::int64_t m, k, n;
};
constexpr Product products[] = {
    {1024, 1024, 1024}, {512, 512, 512}, {64, 3136, 128}, {64, 784, 128}, {64, 128, 10}};

struct Model {
  const char* name;
  Step (*make)(kernels::Device&, std::int64_t);
  std::int64_t batch;
};
constexpr Model models[] = {
    {"convnet", convnet, 64}, {"mlp", mlp, 64}, {"simplecnn", simplecnn, 16}, {"linear", linear, 32}};

Json step_table(const Model& model, kernels::Device& device) {
  Json rows = Json::array();
  Step step = model.make(device, model.batch);
  for (const Step::Row& row : step.measure()) {
    rows.push_back({{"kernel", row.name}, {"ms", row.milliseconds}, {"gflops", row.gflops}});
  }
  return {{"model", model.name}, {"batch", model.batch}, {"kernels", rows}};
}

/// Beside a copy that moves the same bytes.
Json chain_table(kernels::Device& device, double memcpy_gb_per_s) {
  const double copy = chain_gigabytes() / memcpy_gb_per_s * 1e3;
  const double joined = chain_joined(device).measure().back().milliseconds;
  const double apart = chain_apart(device).measure().back().milliseconds;
  return {{"copy_ms", copy},
          {"joined_ms", joined},
          {"apart_ms", apart},
          {"joined_to_copy", joined / copy},
          {"apart_to_copy", apart / copy}};
}

Json measure(int threads) {
  const auto device = kernels::make_cpu_device(threads);
  Json result{{"threads", threads},
              {"processor", device->name()},
              {"instruction_set", device->instruction_set()},
              {"memcpy_gb_per_s", memcpy_gigabytes(256, threads)}};
  for (const auto& [m, k, n] : products) {
    result["matmul"].push_back({{"shape", fmt::format("{}x{}x{}", m, k, n)},
                                {"f32_gflops", matmul_gflops(m, k, n, false)},
                                {"bf16_gflops", matmul_gflops(m, k, n, true)}});
  }
  result["pointwise_chain"] = chain_table(*device, result["memcpy_gb_per_s"].get<double>());
  for (const Model& model : models) result["steps"].push_back(step_table(model, *device));
  return result;
}

void print(const Json& result) {
  fmt::print("{} threads, {}, {}\n", result["threads"].get<int>(), result["processor"].get<std::string>(),
             result["instruction_set"].get<std::string>());
  fmt::print("  memcpy {:.1f} GB/s, read plus write\n", result["memcpy_gb_per_s"].get<double>());
  for (const Json& row : result["matmul"]) {
    fmt::print("  matmul {:<16} f32 {:7.0f}   bf16 {:7.0f} GFLOP/s\n", row["shape"].get<std::string>(),
               row["f32_gflops"].get<double>(), row["bf16_gflops"].get<double>());
  }
  const Json& chain = result["pointwise_chain"];
  for (const char* kind : {"joined", "apart"}) {
    fmt::print("  pointwise chain, {:<6} {:8.3f} ms, {:.2f} times a copy of what it must move\n", kind,
               chain[fmt::format("{}_ms", kind)].get<double>(),
               chain[fmt::format("{}_to_copy", kind)].get<double>());
  }
  for (const Json& step : result["steps"]) {
    fmt::print("  {}, batch {}\n", step["model"].get<std::string>(), step["batch"].get<int>());
    for (const Json& row : step["kernels"]) {
      fmt::print("    {:<28} {:9.4f} ms", row["kernel"].get<std::string>(), row["ms"].get<double>());
      const double gflops = row["gflops"].get<double>();
      fmt::print("{}\n", gflops > 0 ? fmt::format(" {:7.0f} GFLOP/s", gflops) : std::string());
    }
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  bool json = false;
  std::vector<int> teams{1, 2};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      teams = {std::max(1, std::atoi(argv[++i]))};
    } else {
      fmt::print(stderr, "usage: limits [--json] [--threads N]\n");
      return 2;
    }
  }
  nlohmann::json all = nlohmann::json::array();
  for (const int threads : teams) {
    all.push_back(lockstep::bench::measure(threads));
    if (!json) lockstep::bench::print(all.back());
  }
  if (json) fmt::print("{}\n", all.dump(2));
}
