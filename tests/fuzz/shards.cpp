// Tar archives of pictures and classes. The checksums of headers are made right, which no mutation would
// find.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "data/pictures/shards.h"
#include "kernels/base/error.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

void correct_checksums(std::string& archive) {
  constexpr std::size_t block = 512;
  constexpr std::size_t field = 148;
  for (std::size_t at = 0; at + block <= archive.size(); at += block) {
    if (archive.compare(at + 257, 5, "ustar") != 0) continue;
    archive.replace(at + field, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < block; ++i) sum += static_cast<unsigned char>(archive[at + i]);
    archive.replace(at + field, 7, fmt::format("{:06o}", sum) + '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string archive(text_of(data, size));
  correct_checksums(archive);
  constexpr std::int64_t classes = 10;
  try {
    const PictureSetPtr set = open_shards(input_file("shard.tar", archive), Split::train, classes, {});
    for (std::int64_t i = 0; i < set->size(); ++i) {
      if (set->label(i) < 0 || set->label(i) >= classes) std::abort();
      try {
        set->open(i);
      } catch (const DataError&) {
      }
    }
  } catch (const DataError&) {
  }
  return 0;
}
