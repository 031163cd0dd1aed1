// Picture files that `trainer predict` is given.
#include "data/pictures/picture_files.h"

#include "data/pictures/picture_dataset.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

constexpr PictureKind grey{.channels = 1, .size = PictureSize{28, 28}};
const SampleSpec classes{.target_dtype = DType::i64, .num_classes = 10};

void put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  write_file(path, bytes);
}

std::string rows_of(const Picture& picture) {
  const PictureView view = picture.view();
  return {reinterpret_cast<const char*>(view.pixels),
          static_cast<std::size_t>(view.row_bytes * view.size.height)};
}

/// Of three channels or one.
std::string as_png(const Picture& picture) {
  const bool is_grey = picture.view().channels == 1;
  return png_of(picture.view().size, is_grey ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR, 8,
                rows_of(picture));
}

struct Sample {
  std::vector<float> input;
  std::int64_t target = 0;
};

Sample sample_of(const PictureFiles& pictures, std::int64_t index) {
  Sample sample{.input = std::vector<float>(pictures.spec().input_bytes() / sizeof(float), -1.0F)};
  pictures.get(index, 0, std::as_writable_bytes(std::span(sample.input)),
               std::as_writable_bytes(std::span(&sample.target, 1)));
  return sample;
}

}  // namespace

TEST_CASE("pictures are files as named, and of folders all below them, by name or content") {
  const TemporaryFolder folder;
  const std::string jpeg = jpeg_of(formula_picture({20, 20}, 3).view());
  for (const char* name :
       {"in/b/2.jpg", "in/b/10.png", "in/a", "in/c.JPEG", "in/.hidden.jpg", "in/b/.h/1.jpg", "single"}) {
    put(folder / name, jpeg);
  }
  put(folder / "in/notes", "no picture");
  put(folder / "in/empty.png", "");
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  CHECK(find_pictures(std::vector{at("single"), at("in"), at("in/notes")}) ==
        std::vector{at("single"), at("in/a"), at("in/b/10.png"), at("in/b/2.jpg"), at("in/c.JPEG"),
                    at("in/empty.png"), at("in/notes")});
  CHECK(message_of<DataError>([&] { find_pictures(std::vector{at("none")}); }) ==
        at("none") + ": no such file or folder");
  fs::create_directory(folder / "bare");
  put(folder / "bare/notes", "no picture");
  CHECK(message_of<DataError>([&] { find_pictures(std::vector{at("bare")}); }) ==
        at("bare") + ": no JPEG or PNG pictures in it or below it");
}

TEST_CASE("colours become grey with Pillow's weights, and grey pictures stay what they are") {
  const TemporaryFolder folder;
  const Picture own = formula_picture({28, 28}, 1);
  Picture colours({28, 28}, 3);
  std::ranges::fill(std::span(colours.row(0), 28 * 28 * 3), std::uint8_t{0});
  colours.row(0)[0] = colours.row(0)[3 + 1] = colours.row(0)[6 + 2] = 255;
  write_file(folder / "own.png", as_png(own));
  write_file(folder / "colours.png", as_png(colours));
  const PictureFiles pictures({(folder / "own.png").string(), (folder / "colours.png").string()}, grey,
                              classes, {});
  CHECK(pictures.spec().input_shape == Shape{1, 28, 28});
  const Sample same = sample_of(pictures, 0);
  for (std::size_t i = 0; i < same.input.size(); ++i) {
    REQUIRE(same.input[i] == static_cast<float>(own.view().pixels[i]) / 255.0F);
  }
  CHECK(same.target == -100);
  // Image.new("RGB", (1, 1), "red").convert("L") is 76; lime 150, blue 29.
  const Sample converted = sample_of(pictures, 1);
  for (const auto& [at, value] : {std::pair<std::size_t, float>{0, 76}, {1, 150}, {2, 29}, {3, 0}}) {
    CHECK(converted.input[at] == value / 255.0F);
  }
}

TEST_CASE("pictures of another size than the data set's are resized and cropped, then transformed") {
  const TemporaryFolder folder;
  const std::string file = (folder / "wide.png").string();
  write_file(file, as_png(formula_picture({90, 60}, 3)));
  const PictureKind kind{.channels = 3, .size = PictureSize{32, 32}};
  const PictureFiles fitted({file}, kind, classes, {.eval_transform = "normalise=0.5/0.5"});
  const PictureFiles spelled({file}, PictureKind{}, classes,
                             {.eval_transform = "resize=32,crop=32,normalise=0.5/0.5"});
  CHECK(fitted.spec().input_shape == Shape{3, 32, 32});
  CHECK(sample_of(fitted, 0).input == sample_of(spelled, 0).input);
  CHECK(message_of<UsageError>([&] {
          PictureFiles({file}, PictureKind{}, classes, {});
        }).find("must all come out in one") != std::string::npos);
}

TEST_CASE("a picture that cannot be read is named, or passed over and counted") {
  const TemporaryFolder folder;
  const std::string good = (folder / "good.png").string();
  const std::string bad = (folder / "bad.png").string();
  const std::string png = as_png(formula_picture({28, 28}, 3));
  write_file(good, png);
  write_file(bad, png.substr(0, png.size() / 2));
  const PictureFiles strict({good, bad}, grey, classes, {});
  CHECK(message_of<DataError>([&] { sample_of(strict, 1); }).starts_with(bad + ": damaged PNG"));
  const PictureFiles lenient({good, bad}, grey, classes, {.skip_corrupt = true});
  CHECK(sample_of(lenient, 0).input == sample_of(strict, 0).input);
  CHECK(lenient.unreadable().empty());
  for (const float value : sample_of(lenient, 1).input) REQUIRE(value == 0);
  CHECK(lenient.unreadable() == std::vector<std::int64_t>{1});
}
