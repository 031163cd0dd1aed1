#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jerror.h>
#include <jpeglib.h>

#include <fmt/format.h>

#include "data/pictures/decode.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

/// What libjpeg calls in place of ending the process.
struct ErrorManager {
  jpeg_error_mgr base{};
  std::jmp_buf caller{};
  char message[JMSG_LENGTH_MAX] = "";

  static ErrorManager& of(j_common_ptr info) { return *reinterpret_cast<ErrorManager*>(info->err); }

  [[noreturn]] static void leave(j_common_ptr info) {
    info->err->format_message(info, of(info).message);
    std::longjmp(of(info).caller, 1);
  }

  /// What libjpeg fills with grey is an error here; other warnings (bytes between segments) cost no pixel.
  static void warn(j_common_ptr info, int level) {
    if (level >= 0) return;
    const int code = info->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) leave(info);
  }
};

std::uint8_t times(int a, int b) {  // a * b / 255, rounded
  const int product = a * b + 128;
  return static_cast<std::uint8_t>(((product >> 8) + product) >> 8);
}

/// Inks to light as Pillow does it. Files hold them inverted, as Adobe began it.
void cmyk_to_rgb(const std::uint8_t* cmyk, int count, std::uint8_t* rgb) {
  for (int x = 0; x < count; ++x, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>(cmyk[3] - times(255 - cmyk[c], cmyk[3]));
  }
}

class JpegReader final : public PictureReader, public RowSource {
 public:
  JpegReader(std::string name, EncodedBytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = ErrorManager::leave;
    errors_.base.emit_message = ErrorManager::warn;
    const std::span<const std::byte> data = bytes_.get();
    try {
      guarded([&] {
        jpeg_create_decompress(&info_);
        jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(data.data()), data.size());
        jpeg_read_header(&info_, TRUE);
      });
      require_decodable(name_, info_.image_width, info_.image_height);
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() override { jpeg_destroy_decompress(&info_); }

  std::string name() const override { return name_; }
  PictureSize size() const override {
    return {static_cast<int>(info_.image_width), static_cast<int>(info_.image_height)};
  }

  /// Once.
  PicturePart read(const Rectangle& part, PictureSize least) override {
    PicturePart result = begin_read(part, least);
    result.owned = Picture(result.view.size, 3);
    for (int y = 0; y < result.view.size.height; ++y) next_row(result.owned.row(y));
    result.view = result.owned.view();
    result.rows = nullptr;
    return result;
  }

  PicturePart begin_read(const Rectangle& part, PictureSize least) override {
    const int reduction = reduction_for(part, least);
    start(reduction);
    const Rectangle area = area_of(part, reduction);
    begin_rows(area);
    const double scale = 1.0 / reduction;
    return {.view = {.size = area.size(), .channels = 3},
            .rows = this,
            .left = part.left * scale - area.left,
            .top = part.top * scale - area.top,
            .width = part.width * scale,
            .height = part.height * scale};
  }

  void next_row(std::uint8_t* to) override {
    std::uint8_t* pixels = row_.data();
    guarded([&] { jpeg_read_scanlines(&info_, &pixels, 1); });
    const std::uint8_t* from = pixels + first_in_row_;
    if (info_.output_components == 4) {
      cmyk_to_rgb(from, width_, to);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(width_) * 3);
    }
  }

 private:
  /// Runs calls of libjpeg, which leave by longjmp: they have no destructors to run.
  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(errors_.caller) != 0)
      throw DataError(fmt::format("{}: offset {}: {}", name_, offset(), errors_.message));
    calls();
  }

  std::size_t offset() const {
    return info_.src == nullptr
               ? 0
               : bytes_.get().size() - std::min(info_.src->bytes_in_buffer, bytes_.get().size());
  }

  void start(int reduction) {
    const bool has_inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    guarded([&] {
      info_.scale_num = 1;
      info_.scale_denom = static_cast<unsigned>(reduction);
      info_.out_color_space = has_inks ? JCS_CMYK : JCS_RGB;
      jpeg_start_decompress(&info_);
    });
  }

  /// The pixels of the reduced picture that hold `part`.
  Rectangle area_of(const Rectangle& part, int reduction) const {
    const auto up = [&](int value) { return parts_of(value, reduction); };
    const int left = part.left / reduction;
    const int top = part.top / reduction;
    const int right = std::min(up(part.left + part.width), static_cast<int>(info_.output_width));
    const int bottom = std::min(up(part.top + part.height), static_cast<int>(info_.output_height));
    return {left, top, right - left, bottom - top};
  }

  /// Columns are decoded in whole blocks, and with those next to the area, from which its colours are
  /// interpolated.
  void begin_rows(const Rectangle& area) {
    constexpr int margin = 2;  // columns that share a sample of colour
    const int first = std::max(area.left - margin, 0);
    const int end = std::min(area.left + area.width + margin, static_cast<int>(info_.output_width));
    auto begin = static_cast<JDIMENSION>(first);
    auto width = static_cast<JDIMENSION>(end - first);
    row_.resize(std::size_t{info_.output_width} * 4);
    guarded([&] {
      if (width < info_.output_width) jpeg_crop_scanline(&info_, &begin, &width);
      if (area.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(area.top));
    });
    first_in_row_ = (area.left - static_cast<int>(begin)) * info_.output_components;
    width_ = area.width;
  }

  const std::string name_;
  const EncodedBytes bytes_;
  ErrorManager errors_;
  jpeg_decompress_struct info_{};
  std::vector<std::uint8_t> row_;  ///< as libjpeg gives it: with the area's, and some on both sides
  std::ptrdiff_t first_in_row_ = 0;
  int width_ = 0;  ///< of the area
};

}  // namespace

int reduction_for(const Rectangle& part, PictureSize least) {
  int reduction = 8;
  while (reduction > 1 && (part.width / reduction < least.width || part.height / reduction < least.height))
    reduction /= 2;
  return reduction;
}

std::unique_ptr<PictureReader> open_jpeg(std::string name, EncodedBytes bytes) {
  return std::make_unique<JpegReader>(std::move(name), std::move(bytes));
}

}  // namespace lockstep::data
