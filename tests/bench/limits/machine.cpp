#include "tests/bench/limits/machine.h"

#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/limits/chain.h"
#include "tests/bench/limits/onednn_product.h"
#include "tests/gpu/shares/timing.h"

namespace lockstep::bench {
namespace {

using Json = nlohmann::json;

struct Matrices {
  std::int64_t m, k, n;
};
constexpr Matrices shapes[] = {
    {1024, 1024, 1024}, {512, 512, 512}, {64, 3136, 128}, {64, 784, 128}, {64, 128, 10}};

/// Beside a copy that moves the same bytes.
Json chain_table(kernels::Device& device, double memcpy_gb_per_s) {
  const ChainTimes chain = measure_chain(device);
  const double copy = chain.gigabytes / memcpy_gb_per_s * 1e3;
  return {{"copy_ms", copy},
          {"joined_ms", chain.joined_ms},
          {"apart_ms", chain.apart_ms},
          {"joined_to_copy", chain.joined_ms / copy},
          {"apart_to_copy", chain.apart_ms / copy}};
}

}  // namespace

double matmul_gflops(std::int64_t m, std::int64_t k, std::int64_t n, bool bf16) {
  const DType dtype = bf16 ? DType::bf16 : DType::f32;
  const Product product{.size = {m, k, n}, .factors = dtype, .result_dtype = dtype};
  return product.size.flops() / onednn_seconds(product) * 1e-9;
}

double memcpy_gigabytes(int threads) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  const double seconds = shares::shortest([&] {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * part;
      std::memcpy(to.data() + at, from.data() + at, part);
    }
  });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

Json measure_machine(int threads) {
  const auto device = kernels::make_cpu_device(threads);
  Json result{{"threads", threads},
              {"processor", device->name()},
              {"instruction_set", device->instruction_set()},
              {"memcpy_gb_per_s", memcpy_gigabytes(threads)}};
  for (const auto& [m, k, n] : shapes) {
    result["matmul"].push_back({{"shape", fmt::format("{}x{}x{}", m, k, n)},
                                {"f32_gflops", matmul_gflops(m, k, n, false)},
                                {"bf16_gflops", matmul_gflops(m, k, n, true)}});
  }
  result["pointwise_chain"] = chain_table(*device, result["memcpy_gb_per_s"].get<double>());
  return result;
}

void print_machine(const Json& measured) {
  fmt::print("{} threads, {}, {}\n", measured["threads"].get<int>(), measured["processor"].get<std::string>(),
             measured["instruction_set"].get<std::string>());
  fmt::print("  memcpy {:.1f} GB/s, read plus write\n", measured["memcpy_gb_per_s"].get<double>());
  for (const Json& row : measured["matmul"]) {
    fmt::print("  matmul {:<16} f32 {:7.0f}   bf16 {:7.0f} GFLOP/s\n", row["shape"].get<std::string>(),
               row["f32_gflops"].get<double>(), row["bf16_gflops"].get<double>());
  }
  const Json& chain = measured["pointwise_chain"];
  for (const char* kind : {"joined", "apart"}) {
    fmt::print("  pointwise chain, {:<6} {:8.3f} ms, {:.2f} times a copy of what it must move\n", kind,
               chain[fmt::format("{}_ms", kind)].get<double>(),
               chain[fmt::format("{}_to_copy", kind)].get<double>());
  }
}

}  // namespace lockstep::bench
