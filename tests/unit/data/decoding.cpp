// How much of a JPEG is decoded: all pixels for evaluation and prediction, what suffices for training.
#include "data/pictures/decode.h"
#include "data/pictures/image_folder.h"
#include "data/pictures/picture_dataset.h"
#include "data/pictures/picture_files.h"
#include "data/pictures/resample.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

constexpr PictureSize large{400, 320};
constexpr PictureSize small{24, 24};
constexpr const char* crop_at_random = "random-resized-crop=24";

std::vector<float> sample_of(const Dataset& set, std::int64_t index) {
  std::vector<float> input(set.spec().input_bytes() / sizeof(float));
  std::int64_t target = 0;
  set.get(index, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(&target, 1)));
  return input;
}

/// A folder of one class with one picture, whose details a reduced one has not.
class OnePicture {
 public:
  OnePicture() {
    std::filesystem::create_directory(folder_ / "class");
    write_file(file(), jpeg_of(formula_picture(large, 3).view()));
  }
  std::filesystem::path file() const { return folder_ / "class" / "1.jpg"; }

  DatasetPtr open(const std::string& transform, Split split) const {
    return open_dataset({.name = "image-folder",
                         .data_dir = folder_.path(),
                         .transform = transform,
                         .eval_transform = transform},
                        split);
  }

  PicturePart read(const Rectangle& part, PictureSize least) const {
    return open_picture_file(file())->read(part, least);
  }

  /// What the list makes of all its pixels.
  std::vector<float> in_full(const std::string& list) const {
    const PicturePart whole = read({.width = large.width, .height = large.height}, large);
    std::vector<float> floats(3 * small.width * small.height);
    PictureInMemory pixels(whole.view);
    Transform(list).apply(pixels, SampleRandom(0, 0, 0), small, floats);
    return floats;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("a picture to be evaluated or predicted is resized from all its pixels") {
  const OnePicture picture;
  for (const std::string list : {"resize=32,crop=24", "resize=24x24", crop_at_random}) {
    INFO(list);
    const std::vector<float> wanted = picture.in_full(list);
    CHECK(sample_of(*picture.open(list, Split::test), 0) == wanted);
    const PictureFiles predicted({picture.file().string()}, {}, {}, {.eval_transform = list});
    CHECK(sample_of(predicted, 0) == wanted);
    CHECK(sample_of(*picture.open(list, Split::train), 0) != wanted);
  }
}

TEST_CASE("a picture to be trained on is decoded reduced where that suffices") {
  const OnePicture picture;
  SampleRandom random(0, 0, 0);
  const Rectangle part = random_part(large, random);
  const PicturePart reduced = picture.read(part, small);
  REQUIRE(reduced.view.size.width <= part.width / 2 + 2);
  const Picture resized = resize(reduced, small);
  std::vector<float> wanted(3 * small.width * small.height);
  to_floats(resized.view(), false, {}, wanted);
  CHECK(sample_of(*picture.open(crop_at_random, Split::train), 0) == wanted);
}
