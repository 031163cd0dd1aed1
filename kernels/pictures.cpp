#include "kernels/pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/base/division.h"

namespace lockstep::kernels {

std::string PicturesToFloats::normalisation() const {
  return fmt::format("{}/{}", fmt::join(mean, ":"), fmt::join(deviation, ":"));
}

std::int64_t PicturesToFloats::row_bytes() const {
  constexpr auto alignment = static_cast<std::int64_t>(alignof(PictureCut));
  const std::int64_t pixels = has_store() ? 0 : picture.elements();
  return static_cast<std::int64_t>(sizeof(PictureCut)) + rounded_up(pixels, alignment);
}

Types PicturesToFloats::infer(TypeSpan in) const {
  require_count(in, has_store() ? 2 : 1, has_store() ? 2 : 1);
  require_rank("rows", in[rows], 2);
  require_type("rows", in[rows], {DType::u8, {in[rows].shape[0], row_bytes()}});
  if (has_store()) {
    require_rank("stored", in[stored], 2);
    require_type("stored", in[stored], {DType::u8, {in[stored].shape[0], stored_bytes()}});
  }
  const TensorType made{to, {in[rows].shape[0], picture[0], picture[1], picture[2]}};
  require_floats("y", made);
  return {made};
}

}  // namespace lockstep::kernels
