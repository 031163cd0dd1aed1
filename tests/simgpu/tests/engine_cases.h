#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <string>

namespace simgpu::test {

/// What a program can be told to run, by name.
using Cases = std::map<std::string, void (*)()>;
/// Defined by each program.
extern const Cases cases;

/// Ends the program when a CUDA call fails.
void ok(cudaError_t error);

/// Device memory of `count` zeros.
class Numbers {
 public:
  explicit Numbers(std::size_t count);
  ~Numbers();
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  operator float*() const { return data_; }

 private:
  float* data_ = nullptr;
};

}  // namespace simgpu::test
