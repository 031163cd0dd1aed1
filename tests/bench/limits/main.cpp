#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/limits/convolutions.h"
#include "tests/bench/limits/machine.h"
#include "tests/bench/limits/step.h"

// What this machine can do, for one thread and for two: usage: limits [--json] [--threads N]
// The convolutions of models beside the best of oneDNN and ours: limits --convolutions [--json] [--threads N]
// [MODEL ...]
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

Json convolution_table(const std::string& model, int threads) {
  const auto device = kernels::make_cpu_device(threads);
  Json rows = Json::array();
  for (const bool bf16 : {false, true}) {
    for (const ConvolutionRow& row : measure_convolutions(model, bf16, *device)) {
      rows.push_back({{"layer", row.layer},
                      {"what", row.what},
                      {"dtype", row.dtype},
                      {"count", row.count},
                      {"ours_ms", row.ours_ms},
                      {"onednn_ms", row.onednn_ms},
                      {"share", row.limit_ms() / row.ours_ms}});
    }
  }
  return {{"model", model}, {"threads", threads}, {"convolutions", rows}};
}

void print_convolutions(const Json& table) {
  fmt::print("{}, {} thread(s): share of the limit, the faster of oneDNN alone and ours; must be {}\n",
             table["model"].get<std::string>(), table["threads"].get<int>(), least_share);
  fmt::print("  {:<5} {:>5} {:>9} {:>9} {:>6}  {}\n", "dtype", "count", "ours ms", "oneDNN ms", "share",
             "convolution");
  std::size_t slow = 0;
  for (const Json& row : table["convolutions"]) {
    const double share = row["share"].get<double>();
    slow += share < least_share ? 1 : 0;
    fmt::print("  {:<5} {:>5} {:>9.3f} {:>9.3f} {:>6.2f}{} {} ({})\n", row["dtype"].get<std::string>(),
               row["count"].get<int>(), row["ours_ms"].get<double>(), row["onednn_ms"].get<double>(), share,
               share < least_share ? '!' : ' ', row["what"].get<std::string>(),
               row["layer"].get<std::string>());
  }
  fmt::print("  {} of {} below {}\n", slow, table["convolutions"].size(), least_share);
}

struct Words {
  bool help = false;
  bool json = false;
  bool convolutions = false;
  std::vector<int> teams{1, 2};
  std::vector<std::string> models;
};

std::optional<Words> parse(std::span<char* const> arguments) {
  const std::vector<std::string> known = convolution_models();
  Words words;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string word = arguments[i];
    if (word == "--help" || word == "-h") {
      words.help = true;
    } else if (word == "--json") {
      words.json = true;
    } else if (word == "--convolutions") {
      words.convolutions = true;
      words.teams = {1};
    } else if (word == "--threads" && i + 1 < arguments.size()) {
      words.teams = {std::max(1, std::atoi(arguments[++i]))};
    } else if (words.convolutions && std::ranges::count(known, word) > 0) {
      words.models.push_back(word);
    } else {
      return std::nullopt;
    }
  }
  if (words.models.empty()) words.models = known;
  return words;
}

void run(const Words& words) {
  Json all = Json::array();
  for (const int threads : words.teams) {
    if (words.convolutions) {
      for (const std::string& model : words.models) {
        all.push_back(convolution_table(model, threads));
        if (!words.json) print_convolutions(all.back());
      }
    } else {
      all.push_back(measure(threads));
      if (!words.json) print(all.back());
    }
  }
  if (words.json) fmt::print("{}\n", all.dump(2));
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const auto words = lockstep::bench::parse({argv, static_cast<std::size_t>(argc)});
  if (!words || words->help) {
    fmt::print(words ? stdout : stderr, "usage: limits [--json] [--threads N] [--convolutions [{}] ...]\n",
               fmt::join(lockstep::bench::convolution_models(), "|"));
    return words ? 0 : 2;
  }
  lockstep::bench::run(*words);
}
