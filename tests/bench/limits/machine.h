#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace lockstep::bench {

/// GFLOP/s of oneDNN's matrix product of m x k and k x n; 0 if it has none for bf16 here.
double matmul_gflops(std::int64_t m, std::int64_t k, std::int64_t n, bool bf16);

/// GB/s read and written by memcpy, of far more than the caches hold.
double memcpy_gigabytes(int threads);

/// What the machine can do with so many threads.
nlohmann::json measure_machine(int threads);
void print_machine(const nlohmann::json& measured);

}  // namespace lockstep::bench
