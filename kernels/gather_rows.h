#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/division.h"
#include "kernels/kept_sample.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// Whole samples that a device keeps as a step's inputs (N, input) and targets (N, target), as they are. A
/// row of `samples` (N, 2) i64 is a KeptSample; of `stored` (samples, bytes) u8 it is a sample's input, and
/// behind it the target, each from a multiple of 16 bytes on.
struct GatherRows {
  static constexpr std::string_view name = "gather_rows";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::int64_t alignment = 16;
  enum In : std::size_t { samples, stored };
  enum Out : std::size_t { inputs, targets };

  DType input_dtype = DType::f32;
  Shape input{};  ///< of a sample
  DType target_dtype = DType::i64;
  Shape target{};

  bool operator==(const GatherRows&) const = default;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("input_dtype", name_of(input_dtype));
    visit("input", input);
    visit("target_dtype", name_of(target_dtype));
    visit("target", target);
  }

  std::int64_t input_bytes() const { return static_cast<std::int64_t>(bytes_of(input_dtype, input)); }
  std::int64_t target_bytes() const { return static_cast<std::int64_t>(bytes_of(target_dtype, target)); }
  /// Of a stored sample: where its target begins, and all.
  std::int64_t target_offset() const { return aligned(input_bytes()); }
  std::int64_t stored_bytes() const { return target_offset() + aligned(target_bytes()); }

  Types infer(TypeSpan in) const;
  double flops(TypeSpan, TypeSpan) const { return 0; }

 private:
  static std::int64_t aligned(std::int64_t bytes) { return rounded_up(bytes, alignment); }
};

}  // namespace lockstep::kernels
