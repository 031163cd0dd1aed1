#include "data/pictures/decode.h"

#include <cmath>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

/// Without hard edges, so that compression changes little.
Picture smooth_picture(PictureSize size, int channels) {
  Picture picture(size, channels);
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double value = 128 + 60 * std::sin(x * 0.07 + c) + 50 * std::cos(y * 0.05 - c);
        picture.row(y)[x * channels + c] = static_cast<std::uint8_t>(value);
      }
    }
  }
  return picture;
}

std::unique_ptr<PictureReader> open(const std::string& bytes) {
  return open_encoded("picture", EncodedBytes(std::as_bytes(std::span(bytes))));
}

PicturePart whole(PictureReader& reader) {
  return reader.read({.width = reader.size().width, .height = reader.size().height}, reader.size());
}

double largest_difference(const PictureView& a, const PictureView& b) {
  int largest = 0;
  for (int y = 0; y < a.size.height; ++y) {
    for (int i = 0; i < a.size.width * a.channels; ++i)
      largest = std::max(largest, std::abs(a.row(y)[i] - b.row(y)[i]));
  }
  return largest;
}

std::string complaint(const std::string& bytes) {
  return message_of<DataError>([&] { whole(*open(bytes)); });
}

}  // namespace

TEST_CASE("names of pictures are known in any case") {
  CHECK(is_picture_name("a/B.JPG"));
  CHECK(is_picture_name("x.jpeg"));
  CHECK(is_picture_name("x.png"));
  CHECK_FALSE(is_picture_name("x.jpg.txt"));
}

TEST_CASE("a JPEG comes back near what was written") {
  const Picture picture = smooth_picture({70, 50}, 3);
  for (const int subsampling : {1, 2}) {
    const auto reader = open(jpeg_of(picture.view(), {.quality = 97, .subsampling = subsampling}));
    REQUIRE(reader->size() == PictureSize{70, 50});
    // At quality 97 coefficients are rounded to multiples of at most 6; several of them meet in a pixel.
    CHECK(largest_difference(whole(*reader).view, picture.view()) <= 8);
  }
}

TEST_CASE("a part of a JPEG has the pixels that the whole has there") {
  const bool progressive = GENERATE(false, true);
  for (const int subsampling : {1, 2}) {
    const Picture picture = formula_picture({150, 131}, 3);
    const std::string bytes =
        jpeg_of(picture.view(), {.subsampling = subsampling, .progressive = progressive});
    const auto all = open(bytes);
    const PicturePart full = whole(*all);
    for (const Rectangle part : {Rectangle{0, 0, 150, 131},
                                 {37, 41, 60, 50},
                                 {1, 1, 148, 129},
                                 {100, 90, 50, 41},
                                 {0, 64, 16, 16},
                                 {149, 130, 1, 1}}) {
      INFO(part.left << " " << part.top << " " << subsampling << " " << progressive);
      const PicturePart cut = open(bytes)->read(part, part.size());
      REQUIRE(cut.view.size == part.size());
      CHECK((cut.left == 0 && cut.top == 0 && cut.width == part.width && cut.height == part.height));
      CHECK(largest_difference(cut.view, full.view.part(part)) == 0);
    }
  }
}

TEST_CASE("a part of a JPEG has the whole's pixels wherever it begins and ends, reduced too") {
  const Picture picture = formula_picture({157, 143}, 3);
  const Philox random(5, 0);
  std::uint64_t draw = 0;
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint32_t>(bound), draw++));
  };
  for (int round = 0; round < 200; ++round) {
    const int reduction = 1 << below(4);
    const std::string bytes =
        jpeg_of(picture.view(), {.subsampling = 1 + below(2), .progressive = below(2) == 1});
    const auto all = open(bytes);
    const PicturePart full = all->read({.width = 157, .height = 143}, {157 / reduction, 143 / reduction});
    const int width = reduction * (1 + below(157 / reduction));
    const int height = reduction * (1 + below(143 / reduction));
    const Rectangle part{below(157 - width + 1), below(143 - height + 1), width, height};
    const PictureSize least{width / reduction, height / reduction};
    const PicturePart cut = open(bytes)->read(part, least);
    INFO(reduction << " " << part.left << " " << part.top << " " << width << " " << height);
    CHECK(largest_difference(cut.view, full.view.part({part.left / reduction, part.top / reduction,
                                                       cut.view.size.width, cut.view.size.height})) == 0);
    const auto reader = open(bytes);
    const PicturePart begun = reader->begin_read(part, least);
    REQUIRE(begun.view.size == cut.view.size);
    std::vector<std::uint8_t> row(static_cast<std::size_t>(3 * begun.view.size.width));
    for (int y = 0; y < begun.view.size.height; ++y) {
      begun.rows->next_row(row.data());
      CHECK(std::memcmp(row.data(), cut.view.row(y), row.size()) == 0);
    }
  }
}

TEST_CASE("a JPEG is decoded as small as is enough, and tells where the part lies") {
  const Picture picture = smooth_picture({400, 320}, 3);
  const std::string bytes = jpeg_of(picture.view(), {.quality = 97});
  const auto read = [&](PictureSize least) { return open(bytes)->read({101, 50, 240, 200}, least); };
  for (const auto& [least, reduction] : {std::pair<PictureSize, int>{{240, 200}, 1},
                                         {{121, 90}, 1},
                                         {{120, 100}, 2},
                                         {{60, 50}, 4},
                                         {{30, 25}, 8},
                                         {{1, 1}, 8},
                                         {{30, 26}, 4}}) {
    const PicturePart part = read(least);
    CHECK(part.width == 240.0 / reduction);
    CHECK(part.view.size.width <= 240 / reduction + 2);
    CHECK(part.left + part.width <= part.view.size.width);
    CHECK(part.left < 1);
  }
  const PicturePart half = read({120, 100});
  const std::uint8_t* at = half.view.row(50) + 60 * 3;  // pixel (100, 50) and its neighbours of the whole
  for (int c = 0; c < 3; ++c) CHECK(std::abs(at[c] - picture.view().row(151)[3 * 221 + c]) <= 6);
}

TEST_CASE("grey and inks become colours") {
  const Picture grey = smooth_picture({40, 30}, 1);
  const auto reader = open(jpeg_of(grey.view(), {.quality = 97, .subsampling = 1, .space = JCS_GRAYSCALE}));
  const PicturePart part = whole(*reader);
  REQUIRE(part.view.channels == 3);
  for (int i = 0; i < 40; ++i) {
    CHECK(part.view.row(7)[3 * i] == part.view.row(7)[3 * i + 2]);
    CHECK(std::abs(part.view.row(7)[3 * i] - grey.view().row(7)[i]) <= 5);
  }
  // Inverted, as Adobe writes them: 255 is no ink. Light is what cyan and black let through.
  Picture inks({16, 16}, 4);
  for (int i = 0; i < 16 * 16; ++i) std::memcpy(inks.row(0) + 4 * i, "\x64\xff\x00\xc8", 4);
  const auto print = open(jpeg_of(inks.view(), {.quality = 100, .subsampling = 1, .space = JCS_CMYK}));
  const PicturePart light = whole(*print);
  CHECK(std::abs(light.view.pixels[0] - 100 * 200 / 255) <= 2);
  CHECK(std::abs(light.view.pixels[1] - 200) <= 2);
  CHECK(light.view.pixels[2] <= 2);
}

TEST_CASE("PNG pictures of every kind become three channels of 8 bits") {
  const auto pixel = [](spng_color_type type, int depth, const std::string& samples) {
    const auto reader = open(png_of({2, 1}, type, depth, samples));
    const PicturePart part = whole(*reader);
    return std::vector<int>(part.view.pixels, part.view.pixels + 6);
  };
  CHECK(pixel(SPNG_COLOR_TYPE_TRUECOLOR, 8, "\x01\x02\x03\x04\x05\x06") ==
        std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(pixel(SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 8, {"\x01\x02\x03\x00\x04\x05\x06\x80", 8}) ==
        std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(pixel(SPNG_COLOR_TYPE_GRAYSCALE, 8, "\x07\x09") == std::vector<int>{7, 7, 7, 9, 9, 9});
  CHECK(pixel(SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8, "\x07\x10\x09\x20") == std::vector<int>{7, 7, 7, 9, 9, 9});
}

TEST_CASE("of PNG pictures with 16 bits the upper 8 are taken, but grey ones are clipped, as by Pillow") {
  const auto pixels = [](spng_color_type type, const std::vector<std::uint16_t>& samples, int count) {
    const std::string bytes(reinterpret_cast<const char*>(samples.data()), 2 * samples.size());
    const auto reader = open(png_of({count, 1}, type, 16, bytes));
    const PicturePart part = whole(*reader);
    return std::vector<int>(part.view.pixels, part.view.pixels + 3 * count);
  };
  // What Pillow 13.0.0's Image.open(...).convert("RGB") gave for the same samples.
  CHECK(pixels(SPNG_COLOR_TYPE_GRAYSCALE, {1, 255, 256, 0x80ff, 0xffff}, 5) ==
        std::vector<int>{1, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  CHECK(pixels(SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, {255, 9, 0x80ff, 9}, 2) ==
        std::vector<int>{0, 0, 0, 128, 128, 128});
  CHECK(pixels(SPNG_COLOR_TYPE_TRUECOLOR, {1, 256, 0x80ff}, 1) == std::vector<int>{0, 1, 128});
  CHECK(pixels(SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, {1, 256, 0x80ff, 0}, 1) == std::vector<int>{0, 1, 128});
}

TEST_CASE("a part of a PNG is cut from it") {
  const Picture picture = formula_picture({20, 10}, 3);
  const std::string samples(reinterpret_cast<const char*>(picture.view().pixels), 600);
  const PicturePart part =
      open(png_of({20, 10}, SPNG_COLOR_TYPE_TRUECOLOR, 8, samples))->read({3, 4, 5, 6}, {1, 1});
  CHECK(part.view.size == PictureSize{5, 6});
  CHECK(largest_difference(part.view, picture.view().part({3, 4, 5, 6})) == 0);
}

TEST_CASE("what is no picture, cut or damaged is named") {
  CHECK(complaint("") == "picture: offset 0: an empty file");
  CHECK(complaint("GIF89a") == "picture: offset 0: neither a JPEG nor a PNG picture");
  const Picture picture = formula_picture({64, 64}, 3);
  const std::string jpeg = jpeg_of(picture.view());
  CHECK(complaint(jpeg) == "");
  for (const double share : {0.05, 0.3, 0.6, 0.95}) {
    const std::string cut = jpeg.substr(0, static_cast<std::size_t>(share * double(jpeg.size())));
    INFO(share << " " << complaint(cut));
    CHECK(complaint(cut).starts_with("picture: offset "));
  }
  CHECK(complaint("\xff\xd8\xff\xd9").starts_with("picture: offset "));
  const std::string samples(reinterpret_cast<const char*>(picture.view().pixels), 64 * 64 * 3);
  const std::string png = png_of({64, 64}, SPNG_COLOR_TYPE_TRUECOLOR, 8, samples);
  CHECK(complaint(png.substr(0, png.size() / 2)).starts_with("picture: damaged PNG picture: "));
  std::string flipped = png;
  flipped[png.size() / 2] = static_cast<char>(~flipped[png.size() / 2]);
  CHECK(complaint(flipped).starts_with("picture: damaged PNG picture: "));
  std::string huge = png;
  std::memcpy(huge.data() + 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff", 8);
  CHECK(!complaint(huge).empty());
}

TEST_CASE("damaged pictures end in an error or in pixels, wherever they are damaged") {
  const Picture picture = formula_picture({40, 33}, 3);
  const std::string samples(reinterpret_cast<const char*>(picture.view().pixels), 40 * 33 * 3);
  const Philox random(3, 0);
  std::uint64_t draw = 0;
  for (const std::string& good : {jpeg_of(picture.view()), jpeg_of(picture.view(), {.progressive = true}),
                                  png_of({40, 33}, SPNG_COLOR_TYPE_TRUECOLOR, 8, samples)}) {
    for (int round = 0; round < 300; ++round) {
      std::string bytes = good;
      for (int change = 0; change < 3; ++change) {
        const std::uint32_t at = random.below(static_cast<std::uint32_t>(bytes.size()), draw++);
        bytes[at] = static_cast<char>(random.bits(draw++));
      }
      complaint(bytes);
    }
  }
}
