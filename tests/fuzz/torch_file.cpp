// Checkpoints of PyTorch. By the first byte: a ZIP file as it is, or a pickle, which is put into a sound ZIP
// file beside a storage.
#include <cstdlib>

#include "kernels/base/error.h"
#include "runtime/weights/torch_file.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/zip_bytes.h"

using namespace lockstep;
using namespace lockstep::tests;

namespace {

/// Every byte that a tensor claims must be there.
void read(const runtime::TorchFile& file) {
  unsigned sum = 0;
  for (const auto& tensor : file.tensors()) {
    if (tensor.bytes.size() != bytes_of(tensor.dtype, tensor.shape)) std::abort();
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
  }
  [[maybe_unused]] volatile unsigned result = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(text_of(data + 1, size - 1));
  if (data[0] % 2 == 1) bytes = zip_of({{"a/data.pkl", bytes}, {"a/data/0", std::string(64, 'x')}});
  try {
    read(runtime::TorchFile(input_file("weights.pt", bytes)));
  } catch (const DataError&) {
  }
  return 0;
}
