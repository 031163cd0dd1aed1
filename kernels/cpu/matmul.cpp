#include "kernels/cpu/matmul.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
  const Shape shape{rows, columns};
  Layout layout = Layout::row_major(shape);
  if (transposed) layout.strides = {1, rows};
  return onednn::descriptor(shape, layout, dtype).value();
}

}  // namespace

Matmul::Matmul(const onednn::Context& context, const MatmulSpec& spec)
    : context_(context),
      a_(matrix(spec.m, spec.k, spec.transpose_a, spec.dtype)),
      b_(matrix(spec.k, spec.n, spec.transpose_b, spec.dtype)),
      c_(matrix(spec.m, spec.n, false, DType::f32)) {
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

Matmul::Bound::Bound(const Matmul& matmul, void* workspace)
    : primitive_(matmul.primitive_),
      stream_(matmul.context_.stream),
      a_(matmul.a_, matmul.context_.engine, nullptr),
      b_(matmul.b_, matmul.context_.engine, nullptr),
      c_(matmul.c_, matmul.context_.engine, nullptr),
      scratch_(matmul.scratch_, matmul.context_.engine, workspace),
      arguments_{{DNNL_ARG_SRC, a_.get()},
                 {DNNL_ARG_WEIGHTS, b_.get()},
                 {DNNL_ARG_DST, c_.get()},
                 {DNNL_ARG_SCRATCHPAD, scratch_.get()}} {}

void Matmul::Bound::run(const void* a, const void* b, float* c) {
  a_.set_data_handle(const_cast<void*>(a));
  b_.set_data_handle(const_cast<void*>(b));
  c_.set_data_handle(c);
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw DeviceError(fmt::format("oneDNN: a product failed with status {}", static_cast<int>(status)));
  }
}

}  // namespace lockstep::kernels
