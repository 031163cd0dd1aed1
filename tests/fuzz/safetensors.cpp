// safetensors files: as they are, or a header that is put before 64 bytes.
#include <cstdlib>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::tests;

namespace {

std::string with_header(std::string_view header) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(header.size() >> shift);
  return bytes.append(header) + std::string(64, 'x');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = text_of(data + 1, size - 1);
  const auto file = input_file("a.safetensors", data[0] % 2 == 1 ? with_header(bytes) : std::string(bytes));
  try {
    const SafetensorsFile tensors(file);
    unsigned sum = 0;
    for (const auto& tensor : tensors.tensors()) {
      if (tensor.bytes.size() != bytes_of(tensor.dtype, tensor.shape)) std::abort();
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
      if (tensors.find(tensor.name) == nullptr) std::abort();
    }
    [[maybe_unused]] volatile unsigned result = sum;
  } catch (const DataError&) {
  }
  return 0;
}
