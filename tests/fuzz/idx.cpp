// Pictures and labels of MNIST's kind, plain or compressed: by the first byte the images are sound, or the
// labels are.
#include <cstdlib>

#include "data/pictures/idx.h"
#include "kernels/base/error.h"
#include "tests/fuzz/input_file.h"
#include "tests/unit/data/idx_bytes.h"

using namespace lockstep;
using namespace lockstep::tests;

namespace {

constexpr const char* images = "idx/train-images-idx3-ubyte";
constexpr const char* labels = "idx/train-labels-idx1-ubyte";

void read(const data::PictureSet& set) {
  unsigned sum = 0;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    if (set.label(i) < 0 || set.label(i) >= set.num_classes()) std::abort();
    sum += static_cast<unsigned>(set.open(i)->size().width);
  }
  [[maybe_unused]] volatile unsigned result = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool of_images = data[0] % 2 == 1;
  const bool compressed = data[0] % 4 >= 2;
  const std::string bytes(text_of(data + 1, size - 1));
  const auto folder = input_file(images, of_images ? bytes : idx_images(2)).parent_path();
  input_file(labels, of_images ? idx_labels(2) : bytes);
  const std::filesystem::path file = folder.parent_path() / (of_images ? images : labels);
  const std::filesystem::path archive = file.string() + ".gz";
  std::filesystem::remove(archive);
  if (compressed) {
    if (data[0] >= 128) {
      write_file(archive, bytes);
    } else {
      write_gzip(archive, bytes);
    }
    std::filesystem::remove(file);
  }
  try {
    const data::UnpackCache cache(folder / "cache");
    read(*data::open_idx_pictures(folder, data::Split::train, "", cache));
  } catch (const DataError&) {
  }
  std::filesystem::remove_all(folder / "cache");
  return 0;
}
