#include "kernels/cpu/simd/lanes.h"
#include "kernels/depthwise_conv2d.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// The taps of a filter that lie inside the picture along one axis.
struct Taps {
  std::int64_t begin, end, origin;  ///< origin: where tap 0 lies

  Taps(std::int64_t out, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
       std::int64_t kernel, std::int64_t extent)
      : begin(0), end(kernel), origin(out * stride - padding) {
    while (begin < end && origin + begin * dilation < 0) ++begin;
    while (end > begin && origin + (end - 1) * dilation >= extent) --end;
  }
};

template <int width, class Element>
struct Picture {
  using L = Lanes<width>;
  using Floats = typename L::Floats;

  const DepthwisePicture& p;
  const Conv2dGeometry& g;
  std::int64_t channels;  ///< of these lanes

  Floats per_channel(const Element* from, std::int64_t step) const {
    if (step == 1 && channels >= width) return L::load(from);
    float values[width];
    for (std::int64_t lane = 0; lane < width; ++lane) {
      values[lane] = lane < channels ? LOCKSTEP_ISA::load(from + lane * step) : 0;
    }
    return L::load(values);
  }

  Floats pixel(const Taps& rows, const Taps& columns, const Element* x, const Element* w, Floats sum) const {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const Element* const from = x + (rows.origin + row * g.dilation[0]) * p.x_row;
      for (std::int64_t tap = columns.begin; tap < columns.end; ++tap) {
        sum += L::load(from + (columns.origin + tap * g.dilation[1]) * p.pixel) *
               per_channel(w + row * p.w_row + tap * p.w_tap, p.w_lane);
      }
    }
    return sum;
  }

  void compute(bool relu, const Element* x, const Element* w, const Element* b, Element* y) const {
    const Floats bias = b == nullptr ? Floats{} : per_channel(b, 1);
    for (std::int64_t row = 0; row < p.out_height; ++row) {
      const Taps rows(row, g.stride[0], g.padding[0], g.dilation[0], p.kernel_h, p.height);
      for (std::int64_t column = 0; column < p.out_width; ++column) {
        const Taps columns(column, g.stride[1], g.padding[1], g.dilation[1], p.kernel_w, p.width);
        const Floats sum = pixel(rows, columns, x, w, bias);
        L::store(y + row * p.y_row + column * p.pixel, relu ? (sum < 0 ? Floats{} : sum) : sum);
      }
    }
  }
};

template <class Element>
void compute(const Conv2d& op, const DepthwisePicture& p, const Element* x, const Element* w,
             const Element* b, Element* y) {
  const bool relu = op.activation == Activation::relu;
  std::int64_t lane = 0;
  const auto in_lanes = [&]<int width>() {
    for (; lane + width <= p.lanes; lane += width) {
      Picture<width, Element>{p, op.geometry, p.channels - lane}.compute(
          relu, x + lane, w + lane * p.w_lane, b == nullptr ? nullptr : b + lane, y + lane);
    }
  };
  in_lanes.template operator()<16>();
  in_lanes.template operator()<8>();
  in_lanes.template operator()<1>();
}

template <class Element>
void compute_as(const Conv2d& op, const DepthwisePicture& p, const void* x, const void* w, const void* b,
                void* y) {
  compute(op, p, static_cast<const Element*>(x), static_cast<const Element*>(w),
          static_cast<const Element*>(b), static_cast<Element*>(y));
}

}  // namespace

void run(const Conv2d& op, const DepthwisePicture& picture, const void* x, const void* w, const void* b,
         void* y) {
  if (picture.dtype == DType::bf16) return compute_as<Bf16>(op, picture, x, w, b, y);
  compute_as<float>(op, picture, x, w, b, y);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
