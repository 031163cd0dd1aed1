#include <algorithm>

#include <spng.h>

#include <fmt/format.h>

#include "data/pictures/decode.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

struct Free {
  void operator()(spng_ctx* context) const noexcept { spng_ctx_free(context); }
};

class PngReader final : public PictureReader {
 public:
  PngReader(std::string name, EncodedBytes bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)), context_(spng_ctx_new(0)) {
    constexpr std::size_t most_in_chunks = std::size_t{64} << 20;  // of text and profiles, which are not read
    check(context_ == nullptr ? SPNG_EMEM : 0);
    check(spng_set_chunk_limits(context_.get(), most_in_chunks, most_in_chunks));
    check(spng_set_png_buffer(context_.get(), bytes_.get().data(), bytes_.get().size()));
    check(spng_get_ihdr(context_.get(), &header_));
    require_decodable(name_, header_.width, header_.height);
  }

  std::string name() const override { return name_; }
  PictureSize size() const override {
    return {static_cast<int>(header_.width), static_cast<int>(header_.height)};
  }

  PicturePart read(const Rectangle& part, PictureSize) override {
    Picture picture(size(), 3);
    const bool is_clipped = header_.color_type == SPNG_COLOR_TYPE_GRAYSCALE && header_.bit_depth == 16;
    if (is_clipped) {
      decode_clipped(picture);
    } else {
      decode(SPNG_FMT_RGB8, picture.row(0));
    }
    PicturePart result{.owned = std::move(picture),
                       .width = static_cast<double>(part.width),
                       .height = static_cast<double>(part.height)};
    result.view = result.owned.view().part(part);
    return result;
  }

 private:
  void decode(spng_format format, void* pixels) {
    std::size_t length = 0;
    check(spng_decoded_image_size(context_.get(), format, &length));
    check(spng_decode_image(context_.get(), pixels, length, format, 0));
  }

  /// Pillow opens grey of 16 bits as mode I;16, whose convert("RGB") takes 255 for all that is above.
  void decode_clipped(Picture& picture) {
    const std::size_t count = std::size_t{header_.width} * header_.height;
    const auto grey = std::make_unique_for_overwrite<std::uint16_t[]>(count);
    decode(SPNG_FMT_PNG, grey.get());
    std::uint8_t* to = picture.row(0);
    for (std::size_t i = 0; i < count; ++i)
      to = std::fill_n(to, 3, static_cast<std::uint8_t>(std::min<std::uint16_t>(grey[i], 255)));
  }

  void check(int code) const {
    if (code != 0) throw DataError(fmt::format("{}: damaged PNG picture: {}", name_, spng_strerror(code)));
  }

  const std::string name_;
  const EncodedBytes bytes_;
  std::unique_ptr<spng_ctx, Free> context_;
  spng_ihdr header_{};
};

}  // namespace

std::unique_ptr<PictureReader> open_png(std::string name, EncodedBytes bytes) {
  return std::make_unique<PngReader>(std::move(name), std::move(bytes));
}

}  // namespace lockstep::data
