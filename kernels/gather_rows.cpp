#include "kernels/gather_rows.h"

#include <vector>

namespace lockstep::kernels {
namespace {

TensorType batch_of(std::int64_t rows, DType dtype, const Shape& sample) {
  std::vector<std::int64_t> extents{rows};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return {dtype, Shape(std::move(extents))};
}

}  // namespace

Types GatherRows::infer(TypeSpan in) const {
  require_count(in, 2, 2);
  require_rank("samples", in[samples], 2);
  const std::int64_t rows = in[samples].shape[0];
  require_type("samples", in[samples], {DType::i64, {rows, 2}});
  require_rank("stored", in[stored], 2);
  require_type("stored", in[stored], {DType::u8, {in[stored].shape[0], stored_bytes()}});
  return {batch_of(rows, input_dtype, input), batch_of(rows, target_dtype, target)};
}

}  // namespace lockstep::kernels
