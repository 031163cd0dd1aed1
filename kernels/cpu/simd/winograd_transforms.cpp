#include "kernels/cpu/simd/winograd_points.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

constexpr std::int64_t panel = WinogradTiles::panel;

std::int64_t channel_offset(const Planes& planes, std::int64_t channel) {
  return channel / planes.lanes * planes.group + channel % planes.lanes;
}

/// Where a tile is: its picture, and its first pixel there.
struct Place {
  std::int64_t image, row, column;

  Place(const WinogradTiles& tiles, std::int64_t extent, std::int64_t tile)
      : image(tile / (tiles.rows * tiles.columns)),
        row(tile / tiles.columns % tiles.rows * extent),
        column(tile % tiles.columns * extent) {}
};

/// Calls `body(tile, panel, first of its channels)` for each `width` channels of each `step`th tile.
template <int width, class Body>
[[gnu::always_inline]] inline void for_each_part(const WinogradRange& range, std::int64_t step,
                                                 const Body& body) {
  for (std::int64_t p = range.first_panel; p < range.end_panel; ++p) {
    for (std::int64_t tile = range.first_tile; tile < range.end_tile; tile += step) {
      for (std::int64_t part = 0; part < panel; part += width) body(tile, p, part);
    }
  }
}

/// Calls `put(element, value)` for the transform of `size` x `size` pixels of a tile from `channel` on;
/// pixels outside of the picture are zero.
template <int extent, int size, int width, class Element, class Put>
[[gnu::always_inline]] inline void transform_tile(const WinogradInput& op, const Element* pictures,
                                                  std::int64_t tile, std::int64_t channel, const Put& put) {
  using L = Lanes<width>;
  using Floats = typename L::Floats;
  using P = Points<Floats, extent>;
  const WinogradTiles& tiles = op.tiles;
  const Planes& planes = tiles.planes;
  const Place place(tiles, extent, tile);
  const std::int64_t top = place.row - op.padding[0];
  const std::int64_t left = place.column - op.padding[1];
  const Element* const from = pictures + place.image * planes.image + channel_offset(planes, channel) +
                              top * planes.row + left * planes.pixel;
  const auto load = [&](int row, int column) {
    return L::load(from + row * planes.row + column * planes.pixel);
  };
  const auto load_inside = [&](int row, int column) {
    const bool inside =
        top + row >= 0 && top + row < tiles.height && left + column >= 0 && left + column < tiles.width;
    return inside ? load(row, column) : Floats{};
  };
  const auto transform = [](const Floats(&in)[size], Floats(&out)[P::window]) {
    if constexpr (size == P::window)
      P::input(in, out);
    else
      P::template filter<size>(in, out);
  };
  const auto to = [&](int row, int column, Floats value) { put(row * P::window + column, value); };
  if (top >= 0 && left >= 0 && top + size <= tiles.height && left + size <= tiles.width)
    both_axes<size, P::window, Floats>(transform, load, to);
  else
    both_axes<size, P::window, Floats>(transform, load_inside, to);
}

template <int size, int width, class Element>
void to_f32(const WinogradInput& op, const WinogradRange& range, const Element* pictures, float* to) {
  using L = Lanes<width>;
  for_each_part<width>(range, 1, [&](std::int64_t tile, std::int64_t p, std::int64_t part) {
    float* const at = to + p * range.matrices.panel + (tile - range.origin) * panel + part;
    transform_tile<4, size, width>(
        op, pictures, tile, p * panel + part,
        [&](int i, typename L::Floats value) { L::store(at + i * range.matrices.position, value); });
  });
}

/// Words of two channels.
template <int size, int width, class Element>
void to_channel_pairs(const WinogradInput& op, const WinogradRange& range, const Element* pictures,
                      std::uint32_t* to) {
  using L = Lanes<width>;
  for_each_part<width>(range, 1, [&](std::int64_t tile, std::int64_t p, std::int64_t part) {
    std::uint32_t* const at = to + p * range.matrices.panel + ((tile - range.origin) * panel + part) / 2;
    transform_tile<2, size, width>(
        op, pictures, tile, p * panel + part, [&](int i, typename L::Floats value) {
          L::store(reinterpret_cast<Bf16*>(at + i * range.matrices.position), value);
        });
  });
}

/// Words of two tiles, of which the last may have no second.
template <int size, int width, class Element>
void to_tile_pairs(const WinogradInput& op, const WinogradRange& range, const Element* pictures,
                   std::uint32_t* to) {
  using L = Lanes<width>;
  using Floats = typename L::Floats;
  for_each_part<width>(range, 2, [&](std::int64_t tile, std::int64_t p, std::int64_t part) {
    std::uint32_t* const at = to + p * range.matrices.panel + (tile - range.origin) / 2 * panel + part;
    Floats first[Points<Floats, 2>::window * Points<Floats, 2>::window];
    const auto put_pair = [&](int i, Floats second) {
      L::store_words(at + i * range.matrices.position, L::paired(first[i], second));
    };
    transform_tile<2, size, width>(op, pictures, tile, p * panel + part,
                                   [&](int i, Floats value) { first[i] = value; });
    if (tile + 1 < range.end_tile) {
      transform_tile<2, size, width>(op, pictures, tile + 1, p * panel + part, put_pair);
    } else {
      for (int i = 0; i < 16; ++i) put_pair(i, Floats{});
    }
  });
}

template <int extent, int width, class Element>
void transform_output(const WinogradOutput& op, const WinogradRange& range, const float* from,
                      const Element* b, Element* pictures) {
  using L = Lanes<width>;
  using Floats = typename L::Floats;
  using P = Points<Floats, extent>;
  const WinogradTiles& tiles = op.tiles;
  const Planes& planes = tiles.planes;
  const bool relu = op.activation == Activation::relu;
  for_each_part<width>(range, 1, [&](std::int64_t tile, std::int64_t p, std::int64_t part) {
    const Place place(tiles, extent, tile);
    const std::int64_t rows = tiles.height - place.row;
    const std::int64_t columns = tiles.width - place.column;
    const std::int64_t channel = p * panel + part;
    const Floats bias = b == nullptr ? Floats{} : L::load(b + channel);
    const float* const at = from + p * range.matrices.panel + (tile - range.origin) * panel + part;
    Element* const to = pictures + place.image * planes.image + channel_offset(planes, channel) +
                        place.row * planes.row + place.column * planes.pixel;
    both_axes<P::window, extent, Floats>(
        [](const Floats(&in)[P::window], Floats(&out)[extent]) { P::template output<extent>(in, out); },
        [&](int row, int column) {
          return L::load(at + (row * P::window + column) * range.matrices.position);
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
void input_as(const WinogradInput& op, const WinogradRange& range, const void* pictures, void* to) {
  in_width(op.tiles.planes, [&]<int width>() {
    const auto* const from = static_cast<const Element*>(pictures);
    if (op.tiles.factors == DType::f32) {
      auto* const at = static_cast<float*>(to);
      return op.is_gradient ? to_f32<4, width>(op, range, from, at) : to_f32<6, width>(op, range, from, at);
    }
    auto* const at = static_cast<std::uint32_t*>(to);
    if (!op.pairs_tiles) return to_channel_pairs<4, width>(op, range, from, at);
    op.is_gradient ? to_tile_pairs<2, width>(op, range, from, at)
                   : to_tile_pairs<4, width>(op, range, from, at);
  });
}

template <class Element>
void output_as(const WinogradOutput& op, const WinogradRange& range, const float* from, const void* b,
               void* pictures) {
  in_width(op.tiles.planes, [&]<int width>() {
    const auto* const bias = static_cast<const Element*>(b);
    auto* const to = static_cast<Element*>(pictures);
    op.tiles.factors == DType::bf16 ? transform_output<2, width>(op, range, from, bias, to)
                                    : transform_output<4, width>(op, range, from, bias, to);
  });
}

}  // namespace

void run(const WinogradInput& op, const WinogradRange& range, const void* pictures, void* transforms) {
  if (op.tiles.dtype == DType::bf16) return input_as<Bf16>(op, range, pictures, transforms);
  input_as<float>(op, range, pictures, transforms);
}

void run(const WinogradOutput& op, const WinogradRange& range, const float* transforms, const void* b,
         void* pictures) {
  if (op.tiles.dtype == DType::bf16) return output_as<Bf16>(op, range, transforms, b, pictures);
  output_as<float>(op, range, transforms, b, pictures);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
