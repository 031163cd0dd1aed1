#include <algorithm>
#include <optional>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/depthwise_conv2d.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/depthwise_conv2d.h"
#include "kernels/pool2d.h"

namespace lockstep::kernels {
namespace {

using Op = Conv2d;

}  // namespace

bool is_depthwise(const Conv2d& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Op::x];
  const TensorDesc& w = io.inputs[Op::w];
  const std::int64_t channels = x.shape[1];
  if (op.algorithm != Algorithm::automatic || op.geometry.groups != channels || w.shape[0] != channels ||
      channels == 1 || x.dtype == DType::f16) {
    return false;
  }
  const std::optional<Planes> planes = pool_planes(x.layout_or_row_major());
  return planes && has_lanes_of(w.layout_or_row_major(), *planes);
}

bool choose_depthwise_layouts(const Conv2d& op, KernelIo& io) {
  KernelIo chosen = io;
  TensorDesc& x = chosen.inputs[Op::x];
  if (!x.layout) x.layout = channels_last(x.shape);
  if (!is_depthwise(op, chosen)) return false;
  chosen.outputs[Op::y].layout.reset();
  choose_pool_layouts(x, chosen.outputs[Op::y]);
  for (TensorDesc& input : chosen.inputs) input.layout = input.layout_or_row_major();
  io = std::move(chosen);
  return true;
}

KernelPtr depthwise_kernel(const Conv2d& op, const KernelIo& io) {
  const TensorDesc& x = io.inputs[Op::x];
  const TensorDesc& w = io.inputs[Op::w];
  const TensorDesc& y = io.outputs[Op::y];
  const auto [in, out] = pool_planes(x, y);
  const Layout weights = w.layout_or_row_major();
  const bool blocked = !weights.blocks.empty();
  const bool has_bias = io.inputs.size() > Op::b;
  const DepthwisePicture all{.dtype = x.dtype,
                             .height = x.shape[2],
                             .width = x.shape[3],
                             .out_height = y.shape[2],
                             .out_width = y.shape[3],
                             .x_row = in.row,
                             .y_row = out.row,
                             .pixel = in.pixel,
                             .kernel_h = w.shape[2],
                             .kernel_w = w.shape[3],
                             .w_row = weights.strides[2],
                             .w_tap = weights.strides[3],
                             .w_lane = blocked ? 1 : weights.strides[0],
                             .lanes = 0,
                             .channels = 0};
  const std::int64_t most = depthwise_lanes(in);
  const std::int64_t parts = parts_of(in.lanes, most);  // of a group's lanes
  const std::int64_t work = y.shape.elements() * w.shape[2] * w.shape[3];
  const auto run = [=, op = op, images = x.shape[0], channels = x.shape[1], in = in, out = out,
                    kernel = simd::best<Op>()](const Addresses& a) {
    const auto bytes = static_cast<std::int64_t>(size_of(all.dtype));
    parallel_ranges(images * in.groups * parts, work, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t image = at / parts / in.groups;
        const std::int64_t group = at / parts % in.groups;
        const std::int64_t lane = at % parts * most;
        const std::int64_t channel = group * in.lanes + lane;
        DepthwisePicture picture = all;
        picture.lanes = std::min(most, in.lanes - lane);
        picture.channels = std::clamp<std::int64_t>(channels - channel, 0, picture.lanes);
        const std::int64_t weight = (blocked ? channel / most : channel) * weights.strides[0];
        kernel(op, picture, a.in<char>(Op::x) + (image * in.image + group * in.group + lane) * bytes,
               a.in<char>(Op::w) + weight * bytes, has_bias ? a.in<char>(Op::b) + channel * bytes : nullptr,
               a.out<char>(Op::y) + (image * out.image + group * out.group + lane) * bytes);
      }
    });
  };
  return cpu_kernel(io, run);
}

}  // namespace lockstep::kernels
