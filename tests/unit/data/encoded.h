#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <jpeglib.h>
#include <spng.h>

#include "data/pictures/picture.h"

namespace lockstep::data::testing {

struct JpegOptions {
  int quality = 90;
  int subsampling = 2;  ///< of colour, in both directions
  bool progressive = false;
  J_COLOR_SPACE space = JCS_RGB;  ///< of the picture: JCS_GRAYSCALE with 1 channel, JCS_CMYK with 4
};

/// Errors of libjpeg end the test's process.
inline std::string jpeg_of(const PictureView& picture, const JpegOptions& options = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long length = 0;
  jpeg_mem_dest(&info, &bytes, &length);
  info.image_width = static_cast<JDIMENSION>(picture.size.width);
  info.image_height = static_cast<JDIMENSION>(picture.size.height);
  info.input_components = picture.channels;
  info.in_color_space = options.space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = options.subsampling;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < picture.size.height; ++y) {
    auto* row = const_cast<unsigned char*>(picture.row(y));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::unique_ptr<unsigned char, decltype(&std::free)> owner(bytes, std::free);
  return {reinterpret_cast<const char*>(bytes), length};
}

/// `samples`: rows of the picture as PNG stores them.
inline std::string png_of(PictureSize size, spng_color_type type, int depth, const std::string& samples) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                    spng_ctx_free);
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{.width = static_cast<std::uint32_t>(size.width),
                   .height = static_cast<std::uint32_t>(size.height),
                   .bit_depth = static_cast<std::uint8_t>(depth),
                   .color_type = static_cast<std::uint8_t>(type),
                   .compression_method = 0,
                   .filter_method = 0,
                   .interlace_method = 0};
  spng_set_ihdr(context.get(), &header);
  int error =
      spng_encode_image(context.get(), samples.data(), samples.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t length = 0;
  void* bytes = error == 0 ? spng_get_png_buffer(context.get(), &length, &error) : nullptr;
  if (bytes == nullptr) throw std::runtime_error(std::string("PNG: ") + spng_strerror(error));
  const std::unique_ptr<void, decltype(&std::free)> owner(bytes, std::free);
  return {static_cast<const char*>(bytes), length};
}

}  // namespace lockstep::data::testing
