// CIFAR-10's files. By the first byte: Python's batches, or binary ones.
#include <cstdlib>

#include "data/pictures/cifar.h"
#include "kernels/base/error.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool is_binary = data[0] % 2 == 0;
  const auto file =
      input_file(is_binary ? "binary/test_batch.bin" : "python/test_batch", text_of(data + 1, size - 1));
  try {
    const PictureSetPtr set = open_cifar10(file.parent_path(), Split::test);
    for (std::int64_t i = 0; i < set->size(); ++i) {
      if (set->label(i) < 0 || set->label(i) >= cifar10_class_count) std::abort();
      const PictureSize size_of_one = set->open(i)->size();
      if (size_of_one != cifar_picture_size) std::abort();
    }
  } catch (const DataError&) {
  }
  return 0;
}
