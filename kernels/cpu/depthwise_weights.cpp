#include "kernels/cpu/depthwise_conv2d.h"

#include <algorithm>
#include <optional>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/depthwise_conv2d.h"
#include "kernels/pool2d.h"

namespace lockstep::kernels {
namespace {

using Op = Conv2dBackwardWeights;

/// Channels of x or dy as rows of lanes; nothing for a layout whose channels do not lie side by side.
std::optional<Planes> planes_of(const TensorDesc& pictures) {
  const std::optional<Planes> planes = pool_planes(pictures.layout_or_row_major());
  return planes && planes->lanes >= 8 ? planes : std::nullopt;
}

}  // namespace

bool is_depthwise(const Conv2dBackwardWeights& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Op::x];
  const TensorDesc& dw = io.outputs[Op::dw];
  const std::int64_t channels = x.shape[1];
  const bool onednn_is_fast = dw.shape[2] == 3 && dw.shape[3] == 3;
  if (onednn_is_fast || op.algorithm != Algorithm::automatic || op.geometry.groups != channels ||
      dw.shape[0] != channels || channels == 1 || dw.shape[3] > DepthwiseRow::widest_kernel ||
      x.dtype == DType::f16) {
    return false;
  }
  const auto planes = planes_of(x);
  return planes && has_lanes_of(dw.layout_or_row_major(), *planes);
}

bool choose_depthwise_layouts(const Conv2dBackwardWeights& op, KernelIo& io) {
  KernelIo chosen = io;
  TensorDesc& x = chosen.inputs[Op::x];
  if (!x.layout) x.layout = channels_last(x.shape);
  if (!is_depthwise(op, chosen)) return false;
  choose_pool_layouts(x, chosen.inputs[Op::dy]);
  for (TensorDesc& gradient : chosen.outputs) gradient.layout = gradient.layout_or_row_major();
  io = std::move(chosen);
  return true;
}

KernelPtr depthwise_kernel(const Conv2dBackwardWeights& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Op::x];
  const TensorDesc& dy = io.inputs[Op::dy];
  const TensorDesc& dw = io.outputs[Op::dw];
  const auto [in, out] = pool_planes(x, dy);
  const Layout weights = dw.layout_or_row_major();
  const bool blocked = !weights.blocks.empty();
  const Conv2dGeometry& g = op.geometry;
  const DepthwiseRow all{.dtype = x.dtype,
                         .of_dw = dw.dtype,
                         .of_db = io.outputs.size() > Op::db ? io.outputs[Op::db].dtype : dw.dtype,
                         .images = x.shape[0],
                         .height = x.shape[2],
                         .width = x.shape[3],
                         .out_height = dy.shape[2],
                         .out_width = dy.shape[3],
                         .x_image = in.image,
                         .x_row = in.row,
                         .y_image = out.image,
                         .y_row = out.row,
                         .pixel = in.pixel,
                         .kernel_row = 0,
                         .kernel_w = dw.shape[3],
                         .stride_h = g.stride[0],
                         .stride_w = g.stride[1],
                         .padding_h = g.padding[0],
                         .padding_w = g.padding[1],
                         .dilation_h = g.dilation[0],
                         .dilation_w = g.dilation[1],
                         .lanes = 0,
                         .w_tap = weights.strides[3],
                         .w_lane = blocked ? 1 : weights.strides[0],
                         .w_lanes = 0,
                         .b_lanes = 0};
  const std::int64_t most = depthwise_lanes(in);
  const std::int64_t parts = parts_of(in.lanes, most);  // of a group's lanes
  const std::int64_t rows = in.groups * parts * dw.shape[2];
  const std::int64_t work = dy.shape.elements() * dw.shape[2] * dw.shape[3];
  const auto run = [=, op = op, kernel_h = dw.shape[2], channels = dw.shape[0], in = in, out = out,
                    kernel = simd::best<Op>()](const Addresses& a) {
    const auto bytes = [](DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); };
    parallel_ranges(rows, work, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        DepthwiseRow row = all;
        row.kernel_row = at % kernel_h;
        const std::int64_t group = at / kernel_h / parts;
        const std::int64_t lane = at / kernel_h % parts * most;
        const std::int64_t channel = group * in.lanes + lane;
        row.lanes = std::min(most, in.lanes - lane);
        row.b_lanes = std::clamp<std::int64_t>(channels - channel, 0, row.lanes);
        row.w_lanes = blocked ? row.lanes : row.b_lanes;
        const std::int64_t weight =
            (blocked ? channel / most : channel) * weights.strides[0] + row.kernel_row * weights.strides[2];
        char* const db = row.kernel_row == 0 ? a.out<char>(Op::db) : nullptr;
        kernel(op, row, a.in<char>(Op::x) + (group * in.group + lane) * bytes(row.dtype),
               a.in<char>(Op::dy) + (group * out.group + lane) * bytes(row.dtype),
               a.out<char>(Op::dw) + weight * bytes(row.of_dw),
               db == nullptr ? nullptr : db + channel * bytes(row.of_db));
      }
    });
  };
  return cpu_kernel(io, run);
}

}  // namespace lockstep::kernels
