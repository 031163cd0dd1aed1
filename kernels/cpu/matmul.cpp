#include "kernels/cpu/matmul.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
  const Shape shape{rows, columns};
  Layout layout = Layout::row_major(shape);
  if (transposed) layout.strides = {1, rows};
  return onednn::descriptor(shape, layout, dtype).value();
}

/// The right side of a product is packed, for few rows at the cost of a third of the product. The transpose
/// has the large matrix on the left, where it is read as it lies.
bool takes_transpose(const MatmulSpec& spec) {
  const bool few_rows = spec.m % 16 == 0 && spec.m <= 64 && spec.m < spec.n;
  return few_rows && !spec.transpose_a && spec.transpose_b && !spec.accumulate;
}

}  // namespace

Matmul::Matmul(const onednn::Context& context, const MatmulSpec& spec)
    : context_(context),
      rows_(spec.m),
      columns_(spec.n),
      computes_transposed_(takes_transpose(spec)),
      a_(computes_transposed_ ? matrix(spec.n, spec.k, false, spec.dtype)
                              : matrix(spec.m, spec.k, spec.transpose_a, spec.dtype)),
      b_(computes_transposed_ ? matrix(spec.k, spec.m, true, spec.dtype)
                              : matrix(spec.k, spec.n, spec.transpose_b, spec.dtype)),
      c_(computes_transposed_ ? matrix(spec.n, spec.m, false, DType::f32)
                              : matrix(spec.m, spec.n, false, DType::f32)) {
  try {
    const auto description = onednn::matmul(context.engine, {.x = a_, .weights = b_, .bias = {}, .y = c_},
                                            spec.accumulate, spec.precision);
    scratch_ = description.scratchpad_desc();
    primitive_ = onednn::make_primitive(description);
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("a product of ({}, {}) and ({}, {}) {}: oneDNN: {}", spec.m, spec.k, spec.k,
                                  spec.n, name_of(spec.dtype), error.what()));
  }
}

std::size_t Matmul::transposed_bytes() const {
  return computes_transposed_ ? whole_lines(static_cast<std::size_t>(rows_ * columns_) * sizeof(float)) : 0;
}

std::size_t Matmul::workspace_bytes() const {
  return transposed_bytes() + scratch_.get_size();
}

Matmul::Bound::Bound(const Matmul& matmul, void* workspace)
    : rows_(matmul.rows_),
      columns_(matmul.columns_),
      transposed_c_(matmul.computes_transposed_ ? static_cast<float*>(workspace) : nullptr),
      primitive_(matmul.primitive_),
      stream_(matmul.context_.stream),
      a_(matmul.a_, matmul.context_.engine, nullptr),
      b_(matmul.b_, matmul.context_.engine, nullptr),
      c_(matmul.c_, matmul.context_.engine, nullptr),
      scratch_(matmul.scratch_, matmul.context_.engine,
               static_cast<std::byte*>(workspace) + matmul.transposed_bytes()),
      arguments_{{DNNL_ARG_SRC, a_.get()},
                 {DNNL_ARG_WEIGHTS, b_.get()},
                 {DNNL_ARG_DST, c_.get()},
                 {DNNL_ARG_SCRATCHPAD, scratch_.get()}} {}

void Matmul::Bound::run(const void* a, const void* b, float* c) {
  const bool transposes = transposed_c_ != nullptr;
  a_.set_data_handle(const_cast<void*>(transposes ? b : a));
  b_.set_data_handle(const_cast<void*>(transposes ? a : b));
  c_.set_data_handle(transposes ? transposed_c_ : c);
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw DeviceError(fmt::format("oneDNN: a product failed with status {}", static_cast<int>(status)));
  }
  if (!transposes) return;
  parallel_ranges(columns_, rows_ * columns_, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
    simd::best<Transpose>()({end - begin, rows_, rows_, columns_}, transposed_c_ + begin * rows_, c + begin);
  });
}

}  // namespace lockstep::kernels
