#include "kernels/token_windows.h"

#include <string>

namespace lockstep::kernels {

Types GatherWindows::infer(TypeSpan in) const {
  require_count(in, 2, 2);
  require_rank("windows", in[windows], 2);
  const std::int64_t rows = in[windows].shape[0];
  require_type("windows", in[windows], {DType::i64, {rows, 2}});
  if (width != 1 && width != 2 && width != 4 && width != 8)
    throw_misfit("tokens of " + std::to_string(width) + " bytes");
  if (length < 1) throw_misfit("windows without tokens");
  require_rank("stored", in[stored], 2);
  require_type("stored", in[stored], {DType::u8, {in[stored].shape[0], width}});
  return {{DType::i64, {rows, length}}, {DType::i64, per_token ? Shape{rows, length} : Shape{rows}}};
}

}  // namespace lockstep::kernels
