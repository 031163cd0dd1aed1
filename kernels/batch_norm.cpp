#include "kernels/batch_norm.h"

#include <optional>

#include "kernels/base/error.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {
namespace {

/// Whether pixel follows on pixel and row on row, `lanes` apart.
bool is_dense(const Shape& shape, const Layout& layout, std::int64_t lanes) {
  return (shape[3] == 1 || layout.strides[3] == lanes) &&
         (shape[2] == 1 || layout.strides[2] == lanes * shape[3]);
}

std::optional<ChannelView> view_of(const Shape& shape, const Layout& layout) {
  const std::int64_t channels = shape[1];
  if (shape.rank() == 2) {
    if (!layout.is_row_major(shape)) return std::nullopt;
    // One channel has no neighbours: its lanes would be taken for a channel's pixels, those of all samples.
    if (channels == 1) return ChannelView{1, 1, 1, shape[0], 1, 1, 1};
    return ChannelView{channels, channels, 1, 1, shape[0], 0, 0};
  }
  const std::int64_t pixels = shape[2] * shape[3];
  if (layout.blocks.size() == 1 && layout.blocks[0].dim == 1) {
    const std::int64_t lanes = layout.blocks[0].size;
    if (!is_dense(shape, layout, lanes)) return std::nullopt;
    return ChannelView{channels,         lanes, layout.padded[1] / lanes, shape[0], pixels, layout.strides[0],
                       layout.strides[1]};
  }
  if (!layout.blocks.empty()) return std::nullopt;
  const bool images_follow = shape[0] == 1 || layout.strides[0] == channels * pixels;
  if (channels > 1 && layout.strides[1] == 1 && images_follow && is_dense(shape, layout, channels)) {
    return ChannelView{channels, channels, 1, 1, shape[0] * pixels, 0, 0};
  }
  if (!is_dense(shape, layout, 1)) return std::nullopt;
  return ChannelView{channels, 1, channels, shape[0], pixels, layout.strides[0], layout.strides[1]};
}

/// x, or a gradient of its type, and what belongs to its channels.
void require_norm(TypeSpan in, std::size_t x, std::size_t channels_from, std::size_t channels_to) {
  require_images(in[x]);
  require_of_channels(in.subspan(0, channels_to), channels_from, in[x]);
}

TensorType sums_of(const TensorType& x) {
  return {DType::f32, {2, x.shape[1]}};
}

/// All from `total` on, or none.
void require_all_ranks(TypeSpan in) {
  using Op = BatchNormBackward;
  require_count(in, Op::state + 1, Op::state + 1);
  require_type("the ranks' sums", in[Op::total], total_of(in[Op::x]));
  require_type("the ranks' moments", in[Op::moments], moments_of(in[Op::x]));
  require_type("the step state", in[Op::state], step_state_type());
}

}  // namespace

std::string FollowingFunction::name() const {
  return is_there ? Pointwise::Step{.function = function}.str() : "none";
}

ChannelView channel_view(const TensorDesc& x) {
  const auto view = view_of(x.shape, x.layout_or_row_major());
  if (view) return *view;
  throw UsageError("x in " + x.layout_or_row_major().str() +
                   ": must be row-major, channels-last, or blocked in channels");
}

void choose_norm_layouts(std::size_t x, KernelIo& io) {
  const TensorType type = io.inputs[x].type();
  Layout layout = io.inputs[x].layout_or_row_major();
  if (!view_of(type.shape, layout)) layout = Layout::row_major(type.shape);
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc.layout = desc.type() == type ? layout : Layout::row_major(desc.shape);
  }
}

TensorType of_channels(const TensorType& x) {
  return {DType::f32, {x.shape[1]}};
}

void require_images(const TensorType& x) {
  require_floats("x", x);
  if (x.shape.rank() != 2) require_rank("x", x, 4);
}

void require_of_channels(TypeSpan in, std::size_t first, const TensorType& x) {
  for (std::size_t i = first; i < in.size(); ++i) {
    require_type("operand " + std::to_string(i), in[i], of_channels(x));
  }
}

TensorType moments_of(const TensorType& x) {
  return {DType::f64, {2 * x.shape[1] + 1}};
}

TensorType total_of(const TensorType& x) {
  return {DType::f64, {2, x.shape[1]}};
}

Types BatchStatistics::infer(TypeSpan in) const {
  require_count(in, 1, 1);
  require_images(in[x]);
  const Shape& shape = in[x].shape;
  if (shape.elements() / std::max<std::int64_t>(shape[1], 1) < 2) {
    throw_misfit("input " + shape.str() + " has a single number a channel, which has no variance");
  }
  return {of_channels(in[x]), of_channels(in[x])};
}

Types BatchMoments::infer(TypeSpan in) const {
  require_count(in, state + 1, state + 1);
  require_images(in[x]);
  require_type("the step state", in[state], step_state_type());
  return {moments_of(in[x])};
}

Types JoinedStatistics::infer(TypeSpan in) const {
  require_count(in, moments + 1, moments + 1);
  require_rank("the moments", in[moments], 1);
  const TensorType channels{DType::f32, {(in[moments].shape[0] - 1) / 2}};
  require_type("the moments", in[moments], {DType::f64, {2 * channels.shape[0] + 1}});
  return {channels, channels};
}

Types BatchNorm::infer(TypeSpan in) const {
  require_count(in, bias + 1, residual + 1);
  require_norm(in, x, mean, bias + 1);
  if (in.size() > residual) require_type("the residual", in[residual], in[x]);
  return {in[x]};
}

void BatchNormSums::check(TypeSpan in, TypeSpan out) const {
  require_count(in, bias + 1, bias + 1);
  require_norm(in, x, mean, bias + 1);
  require_type("dy", in[dy], in[x]);
  require_type("the sums", out[sums], sums_of(in[x]));
  if (out.size() > total) require_type("the ranks' sums", out[total], total_of(in[x]));
}

void BatchNormBackward::check(TypeSpan in, TypeSpan out) const {
  require_count(in, sums + 1, state + 1);
  require_norm(in, x, mean, bias + 1);
  require_type("dy", in[dy], in[x]);
  require_type("the sums", in[sums], sums_of(in[x]));
  if (in.size() > total) require_all_ranks(in);
  require_type("dx", out[dx], in[x]);
  require_of_channels(out, dweight, in[x]);
}

void RunningStatistics::check(TypeSpan in, TypeSpan out) const {
  require_count(in, state + 1, moments + 1);
  require_type("the step state", in[state], step_state_type());
  if (in.size() > moments) {
    require_type("the ranks' moments", in[moments], {DType::f64, {2 * in[mean].shape.elements() + 1}});
  }
  require_type("the variance", in[variance], in[mean]);
  require_type("the running mean", out[running_mean], in[mean]);
  require_type("the running variance", out[running_variance], in[mean]);
  require_type("the count of batches", out[batches], {DType::i64, {}});
}

}  // namespace lockstep::kernels
