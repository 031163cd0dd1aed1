#pragma once

#include <cstdint>

namespace lockstep::bench {

/// GFLOP/s of oneDNN's matrix product of m x k and k x n; 0 if it has none for bf16 here.
double matmul_gflops(std::int64_t m, std::int64_t k, std::int64_t n, bool bf16);

/// GB/s read and written by memcpy of `megabytes`, far more than the caches hold.
double memcpy_gigabytes(std::int64_t megabytes, int threads);

}  // namespace lockstep::bench
