#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Element types. The names are those of safetensors in lower case.
enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8, u16 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::u16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

/// Numbers of 16 bits, which are added in f32.
constexpr bool is_half(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::u16:
      return "u16";
  }
  return "?";
}

}  // namespace lockstep
