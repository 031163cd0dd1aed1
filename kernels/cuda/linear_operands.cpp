#include "kernels/cuda/linear_operands.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/layout.h"
#include "kernels/matmul.h"
#include "kernels/padded_rows.h"

namespace lockstep::kernels {
namespace {

bool is_of_pictures(const TensorDesc& w) {
  return w.shape.rank() == 4;
}

/// The layout of a tensor with rows laid out as those of `like`.
Layout rows_as(Layout like, std::int64_t rows) {
  like.padded[0] = rows;
  return like;
}

/// A matrix of activations: no rows behind its own.
bool has_row_layout(const TensorDesc& desc) {
  const auto rows = padded_rows(desc);
  return rows && rows->all_rows == rows->rows;
}

/// Elements from row to row; without room where the layout is open or another.
std::int64_t stride_of(const TensorDesc& desc) {
  return has_row_layout(desc) ? padded_rows(desc)->stride : desc.shape[desc.shape.rank() - 1];
}

void keep_rows(TensorDesc& desc) {
  if (!desc.layout || !has_row_layout(desc)) desc.layout = Layout::row_major(desc.shape);
}

/// Rows of `stride` elements where `all` of them are computed.
void keep_computed_rows(TensorDesc& desc, std::int64_t stride) {
  if (!desc.layout || stride_of(desc) != stride) desc.layout = Layout::row_major(desc.shape);
  keep_rows(desc);
}

/// Weights without a layout get `rows`. Rows of pictures are as good as flat ones to a product if those of x
/// and w match.
void choose_weights(const TensorDesc& x, TensorDesc& w, std::int64_t rows) {
  if (is_of_pictures(w)) {
    if (!w.layout) w.layout = rows_as(x.layout.value_or(channels_last(x.shape)), rows);
  } else if (!w.layout || !padded_rows(w)) {
    w.layout = Layout::row_major_up_to(rows, w.shape);
  }
}

void match_pictures(TensorDesc& x, const TensorDesc& w) {
  const Layout wanted = rows_as(*w.layout, x.shape[0]);
  if (!x.layout || !has_layout(wanted, x)) x.layout = wanted;
}

/// A vector along the outputs, of which the product takes or gives `all`.
void choose_vector(TensorDesc* b, std::int64_t all) {
  if (b == nullptr) return;
  const bool fits = b->layout && b->layout->lies_row_major(b->shape) && b->layout->padded[0] >= all;
  if (!fits) b->layout = Layout::row_major_up_to(all, b->shape);
}

/// What a product computes of x (rows, inputs), w (outputs, inputs) and y (rows, outputs), room included, and
/// the elements from row to row of each.
struct LinearProduct {
  std::int64_t rows, inputs, outputs;
  std::int64_t stride_x, stride_w, stride_y;
};

struct Extents {
  std::int64_t inputs, outputs;  ///< with the room of the weights
  std::int64_t stride_x;
};

/// UsageError unless x and w have rows that match.
Extents extents_of(std::string_view op, const TensorDesc& x, const TensorDesc& w) {
  const Layout weights = w.layout_or_row_major();
  if (is_of_pictures(w)) {
    const std::int64_t inputs = w.shape.elements(1);
    const bool flat = weights.blocks.empty() && weights.padded.elements(1) == inputs &&
                      weights.padded[0] >= w.shape[0] && weights.span() == weights.padded[0] * inputs;
    if (flat && has_layout(rows_as(weights, x.shape[0]), x)) return {inputs, weights.padded[0], inputs};
  } else if (const auto rows = padded_rows(w); rows && has_row_layout(x)) {
    return {rows->stride, rows->all_rows, stride_of(x)};
  }
  throw UsageError(fmt::format("{}: x has layout {}, w {}: they must match, without gaps", op,
                               x.layout_or_row_major().str(), weights.str()));
}

LinearProduct product_of(std::string_view op, const MatmulOperands& t) {
  const MatmulSize size = matmul_size(t.x.shape, t.w.shape);
  const Extents room = extents_of(op, t.x, t.w);
  if (!has_row_layout(t.y)) {
    throw UsageError(fmt::format("{}: {} has layout {}, must be row-major", op, t.y.shape.str(),
                                 t.y.layout_or_row_major().str()));
  }
  const std::int64_t stride_y = stride_of(t.y);
  const bool vector_fits = t.b == nullptr || t.b->layout_or_row_major().padded[0] >= room.outputs;
  return {.rows = size.rows,
          .inputs = room.stride_x == room.inputs ? room.inputs : size.inputs,
          .outputs = stride_y == room.outputs && vector_fits ? room.outputs : size.outputs,
          .stride_x = room.stride_x,
          .stride_w = room.inputs,
          .stride_y = stride_y};
}

void require_whole(std::string_view op, bool whole) {
  if (!whole) throw UsageError(fmt::format("{}: a result has room that its operands have not", op));
}

}  // namespace

GemmSpec linear_gemm(const Linear& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const LinearProduct size = product_of(Linear::name, t);
  require_whole(Linear::name, size.outputs == size.stride_y);
  return {.m = size.rows,
          .n = size.outputs,
          .k = size.inputs,
          .transpose_b = true,
          .dtype = t.x.dtype,
          .result = t.y.dtype,
          .precision = gpu_precision(op.precision),
          .stride_a = size.stride_x,
          .stride_b = size.stride_w,
          .stride_c = size.stride_y,
          .algorithm = op.algorithm.plan};
}

GemmSpec linear_gemm(const LinearBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const LinearProduct size = product_of(LinearBackwardData::name, t);
  require_whole(LinearBackwardData::name, size.inputs == size.stride_x);
  return {.m = size.rows,
          .n = size.inputs,
          .k = size.outputs,
          .dtype = t.y.dtype,
          .result = t.x.dtype,
          .precision = gpu_precision(op.precision),
          .stride_a = size.stride_y,
          .stride_b = size.stride_w,
          .stride_c = size.stride_x,
          .algorithm = op.algorithm.plan};
}

GemmSpec linear_gemm(const LinearBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const LinearProduct size = product_of(LinearBackwardWeights::name, t);
  const auto has_rows = [&](const TensorDesc& of) {
    return of.layout_or_row_major().padded[0] == size.outputs;
  };
  require_whole(LinearBackwardWeights::name,
                size.inputs == size.stride_w && has_rows(t.w) && (t.b == nullptr || has_rows(*t.b)));
  return {.m = size.outputs,
          .n = size.inputs,
          .k = size.rows,
          .transpose_a = true,
          .dtype = t.x.dtype,
          .result = t.w.dtype,
          .precision = gpu_precision(op.precision),
          .stride_a = size.stride_y,
          .stride_b = size.stride_x,
          .stride_c = size.stride_w,
          .algorithm = op.algorithm.plan};
}

void choose_linear_layouts(TensorDesc& x, TensorDesc& w, TensorDesc* b, TensorDesc& y) {
  choose_weights(x, w, y.layout ? stride_of(y) : w.shape[0]);
  is_of_pictures(w) ? match_pictures(x, w) : keep_rows(x);
  keep_computed_rows(y, w.layout->padded[0]);
  choose_vector(b, stride_of(y));
}

void choose_backward_data_layouts(TensorDesc& dy, TensorDesc& w, TensorDesc& dx) {
  choose_weights(dx, w, dy.layout ? stride_of(dy) : w.shape[0]);
  is_of_pictures(w) ? match_pictures(dx, w) : keep_computed_rows(dx, w.layout->padded[1]);
  keep_rows(dy);
}

void choose_backward_weights_layouts(TensorDesc& x, TensorDesc& dy, TensorDesc& dw, TensorDesc* db) {
  choose_weights(x, dw, dw.shape[0]);
  const auto take_room = [](TensorDesc& desc, std::int64_t room) {
    keep_rows(desc);
    if (room > desc.shape[desc.shape.rank() - 1]) desc.layout = rows_of_stride(desc.shape, room);
  };
  is_of_pictures(dw) ? match_pictures(x, dw) : take_room(x, dw.layout->padded[1]);
  take_room(dy, dw.layout->padded[0]);
  if (db != nullptr) db->layout = Layout::row_major_up_to(dw.layout->padded[0], db->shape);
}

}  // namespace lockstep::kernels
