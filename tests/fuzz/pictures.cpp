// JPEG and PNG pictures, of which a part is read and resized. The first four bytes choose the part, the fifth
// its size afterwards.
#include <cstdlib>

#include "data/pictures/decode.h"
#include "data/pictures/resample.h"
#include "kernels/base/error.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t choices = 5;
  constexpr std::int64_t most_pixels = 1 << 18;  // larger ones only take longer
  if (size < choices) return 0;
  try {
    const auto picture =
        open_encoded("fuzzer", EncodedBytes(std::as_bytes(std::span(data, size)).subspan(choices)));
    const auto [width, height] = picture->size();
    if (std::int64_t{width} * height > most_pixels) return 0;
    const int left = data[0] % width;
    const int top = data[1] % height;
    const Rectangle part{left, top, 1 + data[2] % (width - left), 1 + data[3] % (height - top)};
    const PictureSize wanted{1 + data[4] % 16, 1 + data[4] / 16};
    const PicturePart read = picture->read(part, wanted);
    unsigned sum = 0;
    const Picture resized = resize(read, wanted);
    for (int y = 0; y < wanted.height; ++y) {
      for (int x = 0; x < 3 * wanted.width; ++x) sum += resized.view().row(y)[x];
    }
    if (sum > 255U * 3 * 256) std::abort();
  } catch (const DataError&) {
  }
  return 0;
}
