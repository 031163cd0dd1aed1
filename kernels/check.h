#pragma once

#include <string_view>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// UsageError "<kernel>: wants <inputs> inputs and <outputs> outputs, got ..." unless the counts are these.
void check_count(std::string_view kernel, const KernelIo& io, std::size_t inputs, std::size_t outputs);

/// UsageError naming the kernel, the tensor and both shapes unless they are equal.
void check_shape(std::string_view kernel, std::string_view name, const TensorDesc& desc, const Shape& wanted);

void check_type(std::string_view kernel, std::string_view name, const TensorDesc& desc, DType wanted);

void check_rank(std::string_view kernel, std::string_view name, const TensorDesc& desc, std::size_t rank);

void check_plain(std::string_view kernel, std::string_view name, const TensorDesc& desc);

/// UsageError if the tensor lies in blocks.
void check_strided(std::string_view kernel, std::string_view name, const TensorDesc& desc);

}  // namespace lockstep::kernels
