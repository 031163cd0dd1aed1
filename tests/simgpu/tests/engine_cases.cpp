#include "tests/simgpu/tests/engine_cases.h"

#include <cstdio>
#include <cstdlib>

namespace simgpu::test {

void ok(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

Numbers::Numbers(std::size_t count) {
  void* data = nullptr;
  ok(cudaMalloc(&data, count * sizeof(float)));
  ok(cudaMemset(data, 0, count * sizeof(float)));
  simgpu::test::ok(cudaDeviceSynchronize());
  data_ = static_cast<float*>(data);
}

Numbers::~Numbers() {
  simgpu::test::ok(cudaDeviceSynchronize());
  ok(cudaFree(data_));
}

}  // namespace simgpu::test

int main(int argc, char** argv) {
  const auto chosen = simgpu::test::cases.find(argc == 2 ? argv[1] : "");
  if (chosen == simgpu::test::cases.end()) {
    std::fprintf(stderr, "name one of:");
    for (const auto& [name, run] : simgpu::test::cases) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  chosen->second();
  simgpu::test::ok(cudaDeviceSynchronize());
}
