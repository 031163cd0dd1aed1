#pragma once

#include <dnnl.hpp>
#include <optional>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/layout.h"

/// All that differs between oneDNN 2 and 3, and the way between its memory descriptors and `Layout`.
namespace lockstep::kernels::onednn {

/// Where a CPU device's primitives are made and run. Both members are shared handles: kernels keep copies.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// The widest instruction set that oneDNN will use here, e.g. "avx512_core_amx"; "avx512_core_bf16_half_rate"
/// where it is AVX512_BF16 on another processor than AMD's: on Intel's, VDPBF16PS does 36e9 products a second
/// where FMA does 83e9.
std::string instruction_set();

/// Whether oneDNN multiplies bf16 by AMX: at ten times the rate of f32.
bool multiplies_by_amx();

/// Whether products of bf16 take less time than those of f32.
bool multiplies_bf16_faster();

/// Whether it is VDPBF16PS that multiplies bf16, at twice the rate of f32: AVX512_BF16 without AMX.
bool multiplies_bf16_in_pairs();

/// Whether the factors of a product of f32 are rounded to bf16: nothing else than AMX gains by it.
bool rounds_to_bf16(MatmulPrecision precision);

/// Whether the library has numbers of this type: descriptors of others are refused.
bool has_type(DType dtype);

/// A tensor whose layout the primitive may choose.
dnnl::memory::desc any_layout(const Shape& shape, DType dtype, std::int64_t groups = 1);

/// `shape` in `layout`. Convolution weights of `groups` > 1, (O, I, KH, KW) here, are (G, O / G, I, KH, KW)
/// to oneDNN. Nothing if oneDNN has no descriptor for it.
std::optional<dnnl::memory::desc> descriptor(const Shape& shape, const Layout& layout, DType dtype,
                                             std::int64_t groups = 1);

/// The inverse; nothing for a format that a `Layout` cannot tell (Winograd weights, compensation).
std::optional<Layout> layout_of(const dnnl::memory::desc& desc, const Shape& shape, std::int64_t groups = 1);

/// What a descriptor tells, with groups of a convolution as an axis of their own; nothing as for `layout_of`.
std::optional<TensorDesc> tensor_of(const dnnl::memory::desc& desc);

/// The descriptors of one convolution; an empty `bias` means none. For a gradient the role's name holds: `x`
/// is dx in backward data.
struct Operands {
  dnnl::memory::desc x, weights, bias, y;
};

/// For `engine`. These throw dnnl::error if the library has no such implementation. Scratch memory is the
/// caller's. Factors of f32 are rounded where `rounds_to_bf16` says so; `high` is `highest`.
dnnl::primitive_desc_base conv_forward(const dnnl::engine& engine, const Operands& operands,
                                       const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                       Activation activation, MatmulPrecision precision);
dnnl::primitive_desc_base conv_backward_data(const dnnl::engine& engine, const Operands& operands,
                                             const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                             MatmulPrecision precision);
dnnl::primitive_desc_base conv_backward_weights(const dnnl::engine& engine, const Operands& operands,
                                                const Conv2dGeometry& geometry, const Algorithm& algorithm,
                                                MatmulPrecision precision);
dnnl::primitive_desc_base linear_forward(const dnnl::engine& engine, const Operands& operands,
                                         Activation activation, MatmulPrecision precision);
dnnl::primitive_desc_base linear_backward_data(const dnnl::engine& engine, const Operands& operands,
                                               MatmulPrecision precision);
dnnl::primitive_desc_base linear_backward_weights(const dnnl::engine& engine, const Operands& operands,
                                                  MatmulPrecision precision);

/// Matrices y = x weights, or y += x weights.
dnnl::primitive_desc_base matmul(const dnnl::engine& engine, const Operands& operands, bool accumulate,
                                 MatmulPrecision precision);

/// The C handle of a primitive, for launches that build no argument map.
dnnl::primitive make_primitive(const dnnl::primitive_desc_base& description);

}  // namespace lockstep::kernels::onednn
