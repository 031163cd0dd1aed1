#include "kernels/pictures.h"

#include "kernels/cuda/portability.h"

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr int values = 256;      ///< of a byte
constexpr int padded_pixel = 8;  ///< channels of a pixel with padding, written at once

/// Sizes, and strides of y in elements and of what is read in bytes.
struct PictureWalk {
  std::int64_t image, row_bytes, picture_bytes, picture_pixels;
  std::int32_t channel, row, pixel;
  std::int32_t channels, width, source_width;
  std::int32_t stored_channels;  ///< of y: those behind `channels` are zero
};

struct PixelScales {
  float mean[3], deviation[3];
};

/// A thread a pixel, with all its channels. Each block makes the table of what bytes become.
template <class Element>
__global__ void pictures_to_floats(PictureWalk p, PixelScales scales, std::int64_t pixels,
                                   const std::uint8_t* rows, const std::uint8_t* stored, Element* y) {
  STATIC_SHARED(Element, table, 3 * values);
  for (int value = static_cast<int>(threadIdx.x); value < values; value += static_cast<int>(blockDim.x)) {
    const float unit = static_cast<float>(value) / 255.0F;
    for (int c = 0; c < 3; ++c)
      table[c * values + value] = narrow<Element>((unit - scales.mean[c]) / scales.deviation[c]);
  }
  __syncthreads();
  for (std::int64_t item = first_item(); item < pixels; item += item_stride()) {
    const std::int64_t n = item / p.picture_pixels;
    const auto in_picture = static_cast<std::int32_t>(item - n * p.picture_pixels);
    const std::int32_t row = in_picture / p.width;
    const std::int32_t column = in_picture - row * p.width;
    const std::uint8_t* const brought = rows + n * p.row_bytes;
    const auto& cut = *aligned_cast<const PictureCut>(brought);
    const std::uint8_t* const picture =
        stored == nullptr ? brought + sizeof(PictureCut) : stored + cut.stored * p.picture_bytes;
    const std::int32_t from_row = cut.row + row;
    const std::int32_t from_column = cut.column + (cut.mirrored != 0 ? p.width - 1 - column : column);
    const bool inside = from_row >= cut.first_row && from_row < cut.end_row &&
                        from_column >= cut.first_column && from_column < cut.end_column;
    const std::uint8_t* const pixel = picture + (from_row * p.source_width + from_column) * p.channels;
    Element* const to = y + n * p.image + row * p.row + column * p.pixel;
    if (p.stored_channels == padded_pixel) {
      Pack<Element, padded_pixel> whole{};
      for (std::int32_t c = 0; c < 3; ++c) {
        if (c < p.channels) whole.at[c] = table[c * values + (inside ? pixel[c] : 0)];
      }
      *aligned_cast<Pack<Element, padded_pixel>>(to) = whole;
      continue;
    }
    for (std::int32_t c = 0; c < p.channels; ++c)
      to[c * p.channel] = table[c * values + (inside ? pixel[c] : 0)];
  }
}

PixelScales scales_of(const PicturesToFloats& op) {
  PixelScales scales{};
  for (std::size_t c = 0; c < 3; ++c) {
    scales.mean[c] = op.mean[c];
    scales.deviation[c] = op.deviation[c];
  }
  return scales;
}

PictureWalk walk_of(const PicturesToFloats& op, const KernelIo& io) {
  using Op = PicturesToFloats;
  const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const Layout y = io.outputs[Op::y].layout_or_row_major();
  const bool whole_pixels = y.padded[1] == padded_pixel && y.strides[1] == 1;
  if (y.padded[1] != op.picture[0] && !whole_pixels)
    throw UsageError("y has room for " + std::to_string(y.padded[1]) + " channels, not for 8 side by side");
  if (!y.blocks.empty()) throw UsageError("y has blocks of channels, which no GPU has");
  return {.image = y.strides[0],
          .row_bytes = io.inputs[Op::rows].shape[1],
          .picture_bytes = op.stored_bytes(),
          .picture_pixels = op.picture[1] * op.picture[2],
          .channel = narrow(y.strides[1]),
          .row = narrow(y.strides[2]),
          .pixel = narrow(y.strides[3]),
          .channels = narrow(op.picture[0]),
          .width = narrow(op.picture[2]),
          .source_width = narrow(op.source_width()),
          .stored_channels = narrow(y.padded[1])};
}

}  // namespace

void choose_layouts(Cuda, const PicturesToFloats&, KernelIo& io) {
  keep_layouts(io);
}

KernelPtr prepare(Cuda, const PicturesToFloats& op, const KernelIo& io) {
  using Op = PicturesToFloats;
  const std::int64_t pixels = io.inputs[Op::rows].shape[0] * op.picture[1] * op.picture[2];
  return with_element(op.to, [&]<class Element>(Element*) {
    return cuda_kernel(io, [=, walk = walk_of(op, io), scales = scales_of(op), s = spread(pixels)](
                               const Addresses& a, cudaStream_t stream) {
      launch(pictures_to_floats<Element>, s.blocks, s.threads, 0, stream, walk, scales, pixels,
             a.in<std::uint8_t>(Op::rows), a.in<std::uint8_t>(Op::stored), a.out<Element>(Op::y));
    });
  });
}

}  // namespace lockstep::kernels
