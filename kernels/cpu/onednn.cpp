#include "kernels/cpu/onednn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/base/error.h"

namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;

constexpr std::pair<DType, memory::data_type> types[] = {{DType::f32, memory::data_type::f32},
                                                         {DType::bf16, memory::data_type::bf16},
                                                         {DType::f16, memory::data_type::f16},
                                                         {DType::i32, memory::data_type::s32},
                                                         {DType::u8, memory::data_type::u8}};

memory::data_type type_of(DType dtype) {
  for (const auto& [ours, theirs] : types) {
    if (ours == dtype) return theirs;
  }
  throw UsageError("oneDNN has no numbers of type " + std::string(name_of(dtype)));
}

std::optional<DType> dtype_of(memory::data_type type) {
  for (const auto& [ours, theirs] : types) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

dnnl::memory::dims dims_of(const Shape& shape, std::int64_t groups) {
  if (shape.rank() == 0) return {1};  // oneDNN's tensors have one dimension or more
  memory::dims dims(shape.begin(), shape.end());
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  return dims;
}

/// Of one input a group and one output: oneDNN's blocks then lie on the groups.
bool is_depthwise(const Shape& weights, std::int64_t groups) {
  return weights[0] == groups && weights[1] == 1;
}

/// A blocked descriptor in oneDNN's own terms, weights with their dimension of groups.
struct Blocked {
  memory::dims padded, strides, block_sizes, block_dims;
  bool operator==(const Blocked&) const = default;
};

Blocked blocked_from(const Shape& shape, const Layout& layout, std::int64_t groups) {
  Blocked to{
      dims_of(layout.padded, groups), memory::dims(layout.strides.begin(), layout.strides.end()), {}, {}};
  if (shape.rank() == 0) to.strides = {1};
  const int shift = groups > 1 ? 1 : 0;
  std::int64_t block_of_outputs = 1;
  for (const Layout::Block& block : layout.blocks) {
    to.block_sizes.push_back(block.size);
    to.block_dims.push_back(block.dim + shift);
    if (block.dim == 0) block_of_outputs *= block.size;
  }
  if (groups == 1) return to;
  const std::int64_t per_group = layout.padded[0] / groups;
  if (is_depthwise(shape, groups)) {
    to.strides.insert(to.strides.begin() + 1, layout.strides[0]);
    for (std::int64_t& dim : to.block_dims) dim = dim == 1 ? 0 : dim;
    to.padded = {layout.padded[0], 1};
    to.padded.insert(to.padded.end(), layout.padded.begin() + 1, layout.padded.end());
  } else {
    to.strides.insert(to.strides.begin(), layout.strides[0] * (per_group / block_of_outputs));
  }
  return to;
}

std::optional<Layout> layout_from(const Blocked& from, const Shape& shape, std::int64_t groups) {
  Layout layout{.padded = shape, .strides = shape, .blocks = {}};
  const std::size_t shift = groups > 1 ? 1 : 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    layout.padded[axis] = from.padded[axis + shift];
    layout.strides[axis] = from.strides[axis + shift];
  }
  for (std::size_t i = 0; i < from.block_sizes.size(); ++i) {
    layout.blocks.push_back(
        {static_cast<int>(from.block_dims[i]) - static_cast<int>(shift), from.block_sizes[i]});
  }
  if (groups == 1) return layout;
  const bool depthwise = is_depthwise(shape, groups);
  layout.padded[0] = depthwise ? from.padded[0] : groups * from.padded[1];
  if (depthwise) layout.strides[0] = from.strides[0];
  for (Layout::Block& block : layout.blocks) block.dim = std::max(block.dim, 0);
  // A channel count per group that needs padding leaves gaps that (O, I, KH, KW) cannot tell.
  if (blocked_from(shape, layout, groups).strides[0] != from.strides[0]) return std::nullopt;
  if (!depthwise && layout.padded[0] != shape[0]) return std::nullopt;
  return layout;
}

#if DNNL_VERSION_MAJOR >= 3

memory::dims dims_of(const memory::desc& desc) {
  return desc.get_dims();
}

memory::data_type type_of(const memory::desc& desc) {
  return desc.get_data_type();
}

std::optional<Blocked> blocked_of(const memory::desc& desc) {
  if (desc.get_format_kind() != memory::format_kind::blocked) return std::nullopt;
  return Blocked{desc.get_padded_dims(), desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()};
}

/// Version 3 makes a blocked descriptor from a format tag alone: the tag that gives the wanted one.
std::optional<memory::desc> descriptor_of(const memory::dims& dims, const Blocked& blocked,
                                          memory::data_type type) {
  if (blocked.block_sizes.empty()) return memory::desc(dims, type, blocked.strides);
  for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag) {
    const memory::desc desc(dims, type, static_cast<memory::format_tag>(tag), true);
    if (desc && blocked_of(desc) == blocked) return desc;
  }
  return std::nullopt;
}

#else

memory::dims dims_of(const memory::desc& desc) {
  return desc.dims();
}

memory::data_type type_of(const memory::desc& desc) {
  return desc.data_type();
}

std::optional<Blocked> blocked_of(const memory::desc& desc) {
  const dnnl_memory_desc_t& raw = desc.data;
  if (raw.format_kind != dnnl_blocked || raw.extra.flags != dnnl_memory_extra_flag_none) return std::nullopt;
  const dnnl_blocking_desc_t& blocking = raw.format_desc.blocking;
  return Blocked{memory::dims(raw.padded_dims, raw.padded_dims + raw.ndims),
                 memory::dims(blocking.strides, blocking.strides + raw.ndims),
                 memory::dims(blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks),
                 memory::dims(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks)};
}

memory::dims dense_strides(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t axis = dims.size() - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

std::optional<memory::desc> descriptor_of(const memory::dims& dims, const Blocked& blocked,
                                          memory::data_type type) {
  memory::desc desc(dims, type, dense_strides(dims));
  dnnl_memory_desc_t& raw = desc.data;
  dnnl_blocking_desc_t& blocking = raw.format_desc.blocking;
  std::ranges::copy(blocked.padded, raw.padded_dims);
  std::ranges::copy(blocked.strides, blocking.strides);
  std::ranges::copy(blocked.block_sizes, blocking.inner_blks);
  std::ranges::copy(blocked.block_dims, blocking.inner_idxs);
  blocking.inner_nblks = static_cast<int>(blocked.block_sizes.size());
  return desc;
}

#endif

}  // namespace

std::string instruction_set() {
  static constexpr std::pair<dnnl_cpu_isa_t, const char*> names[] = {
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx2_vnni_2, "avx2_vnni_2"},
    {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16"},
    {dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16"},
#endif
  };
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  if (isa == dnnl_cpu_isa_avx512_core_bf16 && !__builtin_cpu_is("amd")) return "avx512_core_bf16_half_rate";
  for (const auto& [value, name] : names) {
    if (value == isa) return name;
  }
  return "isa-" + std::to_string(static_cast<unsigned>(isa));
}

bool multiplies_by_amx() {
  return instruction_set().find("amx") != std::string::npos;
}

bool multiplies_bf16_faster() {
  return multiplies_by_amx() || multiplies_bf16_in_pairs();
}

bool multiplies_bf16_in_pairs() {
  return instruction_set() == "avx512_core_bf16";
}

bool rounds_to_bf16(MatmulPrecision precision) {
  return precision == MatmulPrecision::medium && multiplies_by_amx();
}

bool has_type(DType dtype) {
  return std::ranges::any_of(types, [dtype](const auto& type) { return type.first == dtype; });
}

memory::desc any_layout(const Shape& shape, DType dtype, std::int64_t groups) {
  return {dims_of(shape, groups), type_of(dtype), memory::format_tag::any};
}

std::optional<memory::desc> descriptor(const Shape& shape, const Layout& layout, DType dtype,
                                       std::int64_t groups) {
  return descriptor_of(dims_of(shape, groups), blocked_from(shape, layout, groups), type_of(dtype));
}

std::optional<Layout> layout_of(const memory::desc& desc, const Shape& shape, std::int64_t groups) {
  const std::optional<Blocked> blocked = blocked_of(desc);
  if (!blocked) return std::nullopt;
  std::optional<Layout> layout = layout_from(*blocked, shape, groups);
  if (!layout || !descriptor_of(dims_of(shape, groups), *blocked, type_of(DType::f32))) return std::nullopt;
  return layout;
}

std::optional<TensorDesc> tensor_of(const memory::desc& desc) {
  const Shape shape(dims_of(desc));
  const std::optional<DType> dtype = dtype_of(type_of(desc));
  const std::optional<Layout> layout = layout_of(desc, shape);
  if (!dtype || !layout) return std::nullopt;
  return TensorDesc{*dtype, shape, layout};
}

}  // namespace lockstep::kernels::onednn
