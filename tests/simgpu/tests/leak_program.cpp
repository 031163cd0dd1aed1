// leak_program leaves|gives-back: a stream, for the test that looks at how it ends.
#include <cuda_runtime_api.h>

#include <string_view>

int main(int, char** arguments) {
  const std::string_view deed = arguments[1];
  cudaStream_t stream = nullptr;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  if (deed == "gives-back") return cudaStreamDestroy(stream);
  return deed == "leaves" ? 0 : 2;
}
