#include "data/pictures/transforms.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "data/pictures/picture_dataset.h"
#include "data/pictures/resample.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/data/formula_picture.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

std::string sha256(const PictureView& view) {
  Sha256 hash;
  for (int y = 0; y < view.size.height; ++y)
    hash.update(
        std::as_bytes(std::span(view.row(y), static_cast<std::size_t>(view.size.width * view.channels))));
  return hash.hex();
}

std::vector<float> transformed(const std::string& list, PictureSize size, int channels = 3,
                               SampleRandom random = {0, 0, 0}) {
  const Transform transform(list);
  const PictureSize result = *transform.output_size(size);
  std::vector<float> out(static_cast<std::size_t>(result.width * result.height * channels), -1.0F);
  PictureInMemory picture(formula_picture(size, channels));
  transform.apply(picture, random, result, out);
  return out;
}

std::string complaint(const std::string& list) {
  return message_of<UsageError>([&] { Transform transform(list); });
}

/// Many pictures of one size, of which some cannot be read.
class Pictures final : public PictureSet {
 public:
  std::int64_t size() const override { return 10; }
  int channels() const override { return 3; }
  std::int64_t num_classes() const override { return 10; }
  std::optional<PictureSize> picture_size() const override { return PictureSize{20, 16}; }
  std::int64_t label(std::int64_t index) const override { return index; }
  std::unique_ptr<PictureReader> open(std::int64_t index) const override {
    if (index >= corrupt_from) throw DataError("picture " + std::to_string(index) + ": offset 3: damaged");
    return std::make_unique<PictureInMemory>(formula_picture({20, 16}, 3));
  }

  std::int64_t corrupt_from = 100;
};

std::vector<float> sample_of(const Dataset& set, std::int64_t index, std::int64_t epoch,
                             std::int64_t* label = nullptr) {
  std::vector<float> input(set.spec().input_bytes() / sizeof(float));
  std::int64_t target = -1;
  set.get(index, epoch, std::as_writable_bytes(std::span(input)),
          std::as_writable_bytes(std::span(&target, 1)));
  if (label != nullptr) *label = target;
  return input;
}

}  // namespace

TEST_CASE("resizing and evaluation's transforms give torchvision's bytes and floats, all of them") {
  std::ifstream goldens(PICTURE_GOLDENS);
  int checked = 0;
  for (std::string line; std::getline(goldens, line); ++checked) {
    INFO(line);
    std::istringstream words(line);
    std::string kind;
    std::string wanted;
    PictureSize from;
    words >> kind >> from.width >> from.height;
    if (kind == "resize") {
      int channels = 0;
      PictureSize to;
      words >> channels >> to.width >> to.height >> wanted;
      const Picture picture = formula_picture(from, channels);
      const Picture result =
          resize({.view = picture.view(), .width = double(from.width), .height = double(from.height)}, to);
      CHECK(sha256(result.view()) == wanted);
    } else {
      std::string list;
      words >> list >> wanted;
      const std::vector<float> floats = transformed(list, from);
      CHECK(Sha256().update(std::as_bytes(std::span(floats))).hex() == wanted);
    }
  }
  CHECK(checked == 32);
}

TEST_CASE("a window of a resized picture has the pixels that the whole has there") {
  for (const int channels : {1, 3}) {
    const Picture picture = formula_picture({90, 70}, channels);
    const PicturePart part{.view = picture.view(), .width = 90, .height = 70};
    // Both ways, each order, along one side alone, larger and smaller.
    for (const PictureSize size :
         {PictureSize{40, 30}, {85, 20}, {90, 33}, {41, 70}, {200, 150}, {30, 69}, {90, 70}}) {
      const Picture whole = resize(part, size);
      for (const Rectangle window : {Rectangle{0, 0, size.width, size.height},
                                     {3, 5, size.width - 7, size.height - 8},
                                     {11, 9, 1, 3}}) {
        INFO(channels << " " << size.width << " " << size.height << " " << window.left);
        CHECK(sha256(resize(part, size, window).view()) == sha256(whole.view().part(window)));
      }
    }
  }
}

TEST_CASE("rows of floats are those of a table, mirrored or not, with any number of pixels") {
  const std::vector<PixelScale> scales{{0.485F, 0.229F}, {0.456F, 0.224F}, {0.406F, 0.225F}};
  for (const int channels : {1, 3}) {
    for (int width = 1; width < 40; ++width) {
      const Picture picture = formula_picture({width, 1}, channels);
      for (const bool mirrored : {false, true}) {
        std::vector<float> out(static_cast<std::size_t>(width * channels));
        to_floats(picture.view(), mirrored, scales, out);
        for (int x = 0; x < width; ++x) {
          for (int c = 0; c < channels; ++c) {
            const PixelScale& scale = scales[static_cast<std::size_t>(c)];
            const auto value =
                static_cast<float>(picture.view().pixels[(mirrored ? width - 1 - x : x) * channels + c]);
            REQUIRE(out[static_cast<std::size_t>(c * width + x)] ==
                    (value / 255.0F - scale.mean) / scale.deviation);
          }
        }
      }
    }
  }
}

TEST_CASE("a reduced picture is resized from where the part lies in it") {
  // A ramp reduced to half: the part's ends lie between pixels, and its middle must not move.
  Picture ramp({64, 1}, 1);
  for (int x = 0; x < 64; ++x) ramp.row(0)[x] = static_cast<std::uint8_t>(4 * x);
  const Picture part = resize({.view = ramp.view(), .left = 10.5, .width = 21, .height = 1}, {7, 1});
  for (int x = 0; x < 7; ++x) {
    const double center = 10.5 + (x + 0.5) * 3 - 0.5;
    CHECK(std::abs(part.view().pixels[x] - 4 * center) <= 1);  // rounded once
  }
}

TEST_CASE("what is random depends on seed, epoch and sample alone") {
  const std::string list = "random-resized-crop=12x10,flip,pad-crop=2,normalise=0.5/0.25";
  const auto once = transformed(list, {40, 30}, 3, {7, 2, 11});
  CHECK(once == transformed(list, {40, 30}, 3, {7, 2, 11}));
  CHECK(once != transformed(list, {40, 30}, 3, {8, 2, 11}));
  CHECK(once != transformed(list, {40, 30}, 3, {7, 3, 11}));
  CHECK(once != transformed(list, {40, 30}, 3, {7, 2, 12}));
}

TEST_CASE("random parts have torchvision's areas and shapes, and lie everywhere") {
  constexpr PictureSize picture{120, 100};
  int at_edges = 0;
  double areas = 0;
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    SampleRandom random(1, 0, sample);
    const Rectangle part = random_part(picture, random);
    REQUIRE(
        (part.left >= 0 && part.top >= 0 && part.left + part.width <= 120 && part.top + part.height <= 100));
    const double area = part.width * part.height / 12000.0;
    const double ratio = double(part.width) / part.height;
    REQUIRE((area > 0.07 && area <= 1));  // sides are rounded to pixels: 0.08 less a pixel of 31 in each
    REQUIRE((ratio > 0.72 && ratio < 1.38));
    areas += area;
    at_edges += part.left == 0 || part.top == 0;
  }
  // torchvision 0.29's own mean over 20000 draws is 0.465 with a deviation of 0.230: both draws together have
  // a standard error of 0.004, and five of them are allowed.
  CHECK(areas / 4000 == Approx(0.465).margin(0.02));
  CHECK(at_edges > 100);
}

TEST_CASE("a picture too narrow for every try is cut in the middle") {
  SampleRandom random(0, 0, 0);
  CHECK(random_part({1000, 10}, random) == Rectangle{493, 0, 13, 10});
  CHECK(random_part({10, 1000}, random) == Rectangle{0, 493, 10, 13});
}

TEST_CASE("half of the pictures are swapped left to right, wherever the flip stands") {
  const auto plain = transformed("none", {20, 10});
  int flipped = 0;
  for (std::int64_t sample = 0; sample < 400; ++sample) {
    const auto picture = transformed("flip", {20, 10}, 3, {0, 0, sample});
    flipped += picture != plain;
    if (picture == plain) continue;
    for (std::size_t at = 0; at < plain.size(); ++at) {
      REQUIRE(picture[at] == plain[at / 20 * 20 + 19 - at % 20]);
    }
  }
  CHECK(flipped > 150);  // five standard deviations of 400 throws of a coin: 200 +- 50
  CHECK(flipped < 250);
  for (std::int64_t sample = 0; sample < 20;
       ++sample)  // the middle of a swapped picture is the swapped middle
    CHECK(transformed("flip,crop=6", {20, 10}, 1, {0, 0, sample}) ==
          transformed("crop=6,flip", {20, 10}, 1, {0, 0, sample}));
}

TEST_CASE("padding is black and the picture moves in it") {
  bool moved = false;
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    SampleRandom same(3, 1, sample);
    const int top = same.below(9) - 4;
    const int left = same.below(9) - 4;
    const auto plain = transformed("none", {8, 8}, 1);
    const auto out = transformed("pad-crop=4", {8, 8}, 1, {3, 1, sample});
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) {
        const bool within = y + top >= 0 && y + top < 8 && x + left >= 0 && x + left < 8;
        REQUIRE(out[std::size_t(8 * y + x)] ==
                (within ? plain[std::size_t(8 * (y + top) + x + left)] : 0.0F));
      }
    }
    moved = moved || top != 0 || left != 0;
  }
  CHECK(moved);
}

TEST_CASE("sizes are known before a picture is read, where there is one for all") {
  const auto size = [](const char* list, std::optional<PictureSize> of) {
    return Transform(list).output_size(of);
  };
  CHECK(!size("resize=256,flip", std::nullopt));
  CHECK(size("resize=256,crop=224", std::nullopt) == PictureSize{224, 224});
  CHECK(size("resize=30x40", std::nullopt) == PictureSize{40, 30});
  CHECK(size("pad-crop=4,flip", PictureSize{32, 30}) == PictureSize{32, 30});
  CHECK(size("resize=64", PictureSize{100, 75}) == PictureSize{85, 64});
}

TEST_CASE("a list that cannot be is refused with the step and its spelling") {
  CHECK(complaint("crop=224,flop") == "unknown transform 'flop', did you mean 'flip'?");
  CHECK(complaint("crop") ==
        "'crop': '' is not a whole number; it is spelled crop=N or crop=HxW (the middle)");
  CHECK(complaint("crop=0").starts_with("'crop=0': 0 is not in the range 1 to 16384"));
  CHECK(complaint("flip=1") == "'flip=1': it takes no value; it is spelled flip");
  CHECK(complaint("normalise=imagenet,flip") == "'flip' stands behind normalise, which is the last");
  CHECK(complaint("normalise=0.5:0.5/1").starts_with("'normalise=0.5:0.5/1': as many deviations as means"));
  CHECK(complaint("normalise=1/0").starts_with("'normalise=1/0': 0 is not in the range"));
  CHECK(
      complaint("normalise=coco").starts_with("'normalise=coco': 'coco' is no list of means and deviations"));
  CHECK(complaint("Normalize=cifar10,").starts_with("'' stands behind"));
  CHECK(message_of<UsageError>([] {
          picture_spec(Transform("normalise=imagenet"), PictureSize{28, 28}, 1, 10);
        }) == "normalise has 3 means, the pictures have 1 channel: give as many, or one for all");
  CHECK(message_of<UsageError>([] {
          picture_spec(Transform("flip"), std::nullopt, 3, 10);
        }).starts_with("--transform and --eval-transform: pictures of any size must all come out in one"));
}

TEST_CASE("a set of pictures takes the split's list, and epochs differ") {
  const DatasetOptions options{.seed = 5, .transform = "pad-crop=3,flip", .eval_transform = "none"};
  const auto train = with_transform(std::make_shared<Pictures>(), options, Split::train);
  const auto test = with_transform(std::make_shared<Pictures>(), options, Split::test);
  CHECK(train->spec().input_shape == Shape{3, 16, 20});
  CHECK(sample_of(*train, 4, 0) == sample_of(*train, 4, 0));
  int same = 0;  // by chance one in 98
  for (int i = 0; i < 8; ++i) same += sample_of(*train, i, 0) == sample_of(*train, i, 1) ? 1 : 0;
  CHECK(same < 3);
  CHECK(sample_of(*test, 4, 0) == sample_of(*test, 4, 1));
}

TEST_CASE("a corrupt picture ends the run, or the next good one takes its place") {
  const auto pictures = std::make_shared<Pictures>();
  pictures->corrupt_from = 8;
  DatasetOptions options{.transform = "none"};
  const auto strict = with_transform(pictures, options, Split::train);
  CHECK(message_of<DataError>([&] { sample_of(*strict, 8, 0); }) == "picture 8: offset 3: damaged");
  options.skip_corrupt = true;
  const auto lenient = with_transform(pictures, options, Split::train);
  std::int64_t label = -1;
  CHECK(sample_of(*lenient, 8, 0, &label) == sample_of(*lenient, 0, 0));
  CHECK(label == 0);
  pictures->corrupt_from = 0;
  CHECK(message_of<DataError>([&] { sample_of(*lenient, 8, 0); }) == "picture 7: offset 3: damaged");
}
