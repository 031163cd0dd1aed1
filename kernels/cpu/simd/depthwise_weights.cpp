#include "kernels/depthwise_conv2d.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// `width` channels side by side: GCC's vector extension, so that the sums of a row of weights stay in
/// registers.
template <int width>
struct Lanes {
  typedef float Floats __attribute__((vector_size(width * sizeof(float))));
  typedef float Unaligned
      __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));

  static Floats load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static Floats load(const Bf16* from) {
    float values[width];
    for (int lane = 0; lane < width; ++lane) values[lane] = simd::LOCKSTEP_ISA::load(from + lane);
    return load(values);
  }

  /// The first `count`, `step` elements from one to the next.
  template <class Element>
  static void store(Element* to, std::int64_t step, std::int64_t count, Floats from) {
    float values[width];
    *reinterpret_cast<Unaligned*>(values) = from;
    for (std::int64_t lane = 0; lane < width && lane < count; ++lane) {
      simd::LOCKSTEP_ISA::store(to + lane * step, values[lane]);
    }
  }

  /// The same from element `first` of `to` on, which has elements of `dtype`.
  static void store(void* to, DType dtype, std::int64_t first, std::int64_t step, std::int64_t count,
                    Floats from) {
    if (dtype == DType::bf16) return store(static_cast<Bf16*>(to) + first, step, count, from);
    store(static_cast<float*>(to) + first, step, count, from);
  }
};

struct Range {
  std::int64_t begin, end;
};

/// The gradients of a kernel row's weights in `width` channels. Each picture has sums of its own, which are
/// added up: f32 keeps more of many small terms.
template <int width, int most_taps, class Element>
struct Row {
  using L = Lanes<width>;
  using Floats = typename L::Floats;

  const DepthwiseRow& row;
  std::int64_t taps;

  /// taps as a constant, where the template has it.
  std::int64_t count() const { return most_taps < DepthwiseRow::widest_kernel ? most_taps : taps; }

  /// Output columns from `begin` to `end`, whose windows may reach over the edge.
  void add_edge(const Element* x, const Element* dy, Range columns, Floats* sums) const {
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      const Floats gradient = L::load(dy + column * row.pixel);
      for (std::int64_t tap = 0; tap < count(); ++tap) {
        const std::int64_t from = column * row.stride_w - row.padding_w + tap * row.dilation_w;
        if (from >= 0 && from < row.width) sums[tap] += gradient * L::load(x + from * row.pixel);
      }
    }
  }

  /// The others: their sums are in registers.
  void add_inside(const Element* x, const Element* dy, Range columns, Floats* sums) const {
    Floats kept[most_taps];
    for (std::int64_t tap = 0; tap < count(); ++tap) kept[tap] = sums[tap];
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      const Floats gradient = L::load(dy + column * row.pixel);
      const Element* const from = x + (column * row.stride_w - row.padding_w) * row.pixel;
      for (std::int64_t tap = 0; tap < count(); ++tap) {
        kept[tap] += gradient * L::load(from + tap * row.dilation_w * row.pixel);
      }
    }
    for (std::int64_t tap = 0; tap < count(); ++tap) sums[tap] = kept[tap];
  }

  /// Output columns whose windows lie inside the picture.
  Range inside() const {
    const std::int64_t first = (row.padding_w + row.stride_w - 1) / row.stride_w;
    const std::int64_t last_left = row.width - 1 - (count() - 1) * row.dilation_w;
    const std::int64_t end = last_left < 0 ? 0 : (last_left + row.padding_w) / row.stride_w + 1;
    const std::int64_t begin = first < row.out_width ? first : row.out_width;
    return {begin, end < begin ? begin : end < row.out_width ? end : row.out_width};
  }

  void add_picture(const Element* x, const Element* dy, Floats* total) const {
    const Range middle = inside();
    Floats sums[most_taps] = {};
    for (std::int64_t out_row = 0; out_row < row.out_height; ++out_row) {
      const std::int64_t in_row = out_row * row.stride_h + row.kernel_row * row.dilation_h - row.padding_h;
      if (in_row < 0 || in_row >= row.height) continue;
      const Element* const from = x + in_row * row.x_row;
      const Element* const gradients = dy + out_row * row.y_row;
      add_edge(from, gradients, {0, middle.begin}, sums);
      add_inside(from, gradients, middle, sums);
      add_edge(from, gradients, {middle.end, row.out_width}, sums);
    }
    for (std::int64_t tap = 0; tap < count(); ++tap) total[tap] += sums[tap];
  }

  void weights(const Element* x, const Element* dy, std::int64_t first, void* dw) const {
    Floats total[most_taps] = {};
    for (std::int64_t image = 0; image < row.images; ++image) {
      add_picture(x + image * row.x_image, dy + image * row.y_image, total);
    }
    for (std::int64_t tap = 0; tap < count(); ++tap) {
      L::store(dw, row.of_dw, first * row.w_lane + tap * row.w_tap, row.w_lane, row.w_lanes - first,
               total[tap]);
    }
  }

  void bias(const Element* dy, std::int64_t first, void* db) const {
    Floats total{};
    for (std::int64_t image = 0; image < row.images; ++image) {
      Floats sum{};
      for (std::int64_t out_row = 0; out_row < row.out_height; ++out_row) {
        const Element* const gradients = dy + image * row.y_image + out_row * row.y_row;
        for (std::int64_t column = 0; column < row.out_width; ++column) {
          sum += L::load(gradients + column * row.pixel);
        }
      }
      total += sum;
    }
    L::store(db, row.of_db, first, 1, row.b_lanes - first, total);
  }
};

template <int width, class Element>
void compute(const DepthwiseRow& row, std::int64_t first, const Element* x, const Element* dy, void* dw,
             void* db) {
  x += first;
  dy += first;
  if (row.kernel_w == 3) {
    Row<width, 3, Element>{row, 3}.weights(x, dy, first, dw);
  } else if (row.kernel_w == 5) {
    Row<width, 5, Element>{row, 5}.weights(x, dy, first, dw);
  } else {
    Row<width, DepthwiseRow::widest_kernel, Element>{row, row.kernel_w}.weights(x, dy, first, dw);
  }
  if (db != nullptr) Row<width, 1, Element>{row, 1}.bias(dy, first, db);
}

template <class Element>
void compute(const DepthwiseRow& row, const void* x, const void* dy, void* dw, void* db) {
  std::int64_t lane = 0;
  const auto in_lanes = [&]<int width>() {
    for (; lane + width <= row.lanes; lane += width) {
      compute<width>(row, lane, static_cast<const Element*>(x), static_cast<const Element*>(dy), dw, db);
    }
  };
  in_lanes.template operator()<16>();
  in_lanes.template operator()<8>();
  in_lanes.template operator()<1>();
}

}  // namespace

void run(const Conv2dBackwardWeights&, const DepthwiseRow& row, const void* x, const void* dy, void* dw,
         void* db) {
  if (row.dtype == DType::bf16) return compute<Bf16>(row, x, dy, dw, db);
  compute<float>(row, x, dy, dw, db);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
