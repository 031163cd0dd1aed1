#include "kernels/cpu/simd/winograd_points.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

std::int64_t channel_offset(const Planes& planes, std::int64_t channel) {
  return channel / planes.lanes * planes.group + channel % planes.lanes;
}

/// Where a tile is: its picture, and its first pixel there.
struct Place {
  std::int64_t image, row, column;

  Place(const WinogradTiles& tiles, std::int64_t tile)
      : image(tile / (tiles.rows * tiles.columns)),
        row(tile / tiles.columns % tiles.rows * extent),
        column(tile % tiles.columns * extent) {}
};

/// Calls `body(tile, channel, offset of the channel in the tile's row)` for each `width` channels of the
/// tiles.
template <int width, class Body>
[[gnu::always_inline]] inline void for_each_part(const WinogradRange& range, const Body& body) {
  constexpr std::int64_t panel = WinogradTiles::panel;
  for (std::int64_t p = range.first_panel; p < range.end_panel; ++p) {
    for (std::int64_t tile = range.first_tile; tile < range.end_tile; ++tile) {
      for (std::int64_t part = 0; part < panel; part += width) {
        body(tile, p * panel + part, p * range.matrices.panel + (tile - range.origin) * panel + part);
      }
    }
  }
}

/// `size` x `size` pixels from (row, column) on, of which some may lie outside: those are zero in `copy`.
template <int width, int size, class Element>
void copy_inside(const WinogradTiles& tiles, std::int64_t row, std::int64_t column, const Element* picture,
                 Element (&copy)[size * size * width]) {
  const Planes& planes = tiles.planes;
  for (int r = 0; r < size; ++r) {
    for (int c = 0; c < size; ++c) {
      const bool inside =
          row + r >= 0 && row + r < tiles.height && column + c >= 0 && column + c < tiles.width;
      const std::int64_t from = inside ? (row + r) * planes.row + (column + c) * planes.pixel : 0;
      for (int lane = 0; lane < width; ++lane) {
        copy[(r * size + c) * width + lane] = inside ? picture[from + lane] : Element{};
      }
    }
  }
}

template <int width, int size, class Element>
void transform_input(const WinogradInput& op, const WinogradRange& range, const Element* pictures,
                     float* to) {
  using L = Lanes<width>;
  using Floats = typename L::Floats;
  const WinogradTiles& tiles = op.tiles;
  const Planes& planes = tiles.planes;
  const std::int64_t position = range.matrices.position;
  const auto transform = [&](const Element* from, std::int64_t row_step, std::int64_t step, float* at) {
    both_axes<size, window, Floats>(
        [](const Floats(&in)[size], Floats(&out)[window]) {
          if constexpr (size == window)
            Points<Floats>::input(in, out);
          else
            Points<Floats>::template filter<size>(in, out);
        },
        [&](int row, int column) { return L::load(from + row * row_step + column * step); },
        [&](int row, int column, Floats value) { L::store(at + (row * window + column) * position, value); });
  };
  for_each_part<width>(range, [&](std::int64_t tile, std::int64_t channel, std::int64_t offset) {
    const Place place(tiles, tile);
    const std::int64_t row = place.row - op.padding[0];
    const std::int64_t column = place.column - op.padding[1];
    const bool inside = row >= 0 && column >= 0 && row + size <= tiles.height && column + size <= tiles.width;
    const Element* const picture = pictures + place.image * planes.image + channel_offset(planes, channel);
    if (inside) {
      transform(picture + row * planes.row + column * planes.pixel, planes.row, planes.pixel, to + offset);
    } else {
      Element copy[size * size * width];
      copy_inside<width, size>(tiles, row, column, picture, copy);
      transform(copy, size * width, width, to + offset);
    }
  });
}

template <int width, class Element>
void transform_output(const WinogradOutput& op, const WinogradRange& range, const float* from,
                      const Element* b, Element* pictures) {
  using L = Lanes<width>;
  using Floats = typename L::Floats;
  const WinogradTiles& tiles = op.tiles;
  const Planes& planes = tiles.planes;
  const bool relu = op.activation == Activation::relu;
  for_each_part<width>(range, [&](std::int64_t tile, std::int64_t channel, std::int64_t offset) {
    const Place place(tiles, tile);
    const std::int64_t rows = tiles.height - place.row;
    const std::int64_t columns = tiles.width - place.column;
    const Floats bias = b == nullptr ? Floats{} : L::load(b + channel);
    Element* const to = pictures + place.image * planes.image + channel_offset(planes, channel) +
                        place.row * planes.row + place.column * planes.pixel;
    both_axes<window, extent, Floats>(
        [](const Floats(&in)[window], Floats(&out)[extent]) {
          Points<Floats>::template output<extent>(in, out);
        },
        [&](int row, int column) {
          return L::load(from + offset + (row * window + column) * range.matrices.position);
        },
        [&](int row, int column, Floats value) {
          if (row >= rows || column >= columns) return;
          value += bias;
          L::store(to + row * planes.row + column * planes.pixel,
                   relu ? (value < 0 ? Floats{} : value) : value);
        });
  });
}

/// Calls `transform` with the widest vectors that registers have and the channels fill.
template <class Transform>
void in_width(const Planes& planes, const Transform& transform) {
  if constexpr (native_width == 16) {
    if (planes.lanes % 16 == 0) return transform.template operator()<16>();
  }
  transform.template operator()<8>();
}

template <class Element>
void input_as(const WinogradInput& op, const WinogradRange& range, const void* pictures, float* to) {
  in_width(op.tiles.planes, [&]<int width>() {
    const auto* const from = static_cast<const Element*>(pictures);
    if (op.is_gradient) return transform_input<width, extent>(op, range, from, to);
    transform_input<width, window>(op, range, from, to);
  });
}

template <class Element>
void output_as(const WinogradOutput& op, const WinogradRange& range, const float* from, const void* b,
               void* pictures) {
  in_width(op.tiles.planes, [&]<int width>() {
    transform_output<width>(op, range, from, static_cast<const Element*>(b), static_cast<Element*>(pictures));
  });
}

}  // namespace

void run(const WinogradInput& op, const WinogradRange& range, const void* pictures, float* transforms) {
  if (op.tiles.dtype == DType::bf16) return input_as<Bf16>(op, range, pictures, transforms);
  input_as<float>(op, range, pictures, transforms);
}

void run(const WinogradOutput& op, const WinogradRange& range, const float* transforms, const void* b,
         void* pictures) {
  if (op.tiles.dtype == DType::bf16) return output_as<Bf16>(op, range, transforms, b, pictures);
  output_as<float>(op, range, transforms, b, pictures);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
