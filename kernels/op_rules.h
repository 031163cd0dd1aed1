#pragma once

#include <string_view>

#include "kernels/kernel.h"

/// What the ops demand of their tensors, the same on every device. UsageError names the kernel and the
/// tensor.
namespace lockstep::kernels {

/// f32 tensors of one shape and layout; returns their elements, padding included.
std::int64_t check_elementwise(std::string_view kernel, const KernelIo& io, std::size_t inputs);

/// A gradient, and a parameter with its state, of one size; returns its elements.
std::int64_t check_update(std::string_view kernel, const KernelIo& io, std::size_t outputs);

/// Flat f32 gradients, StepState and ControlBlock; returns the gradients' elements.
std::int64_t check_gradient_norm(const KernelIo& io);

void check_cross_entropy(std::string_view kernel, const KernelIo& io, bool gradient);
void check_squared_error(std::string_view kernel, const KernelIo& io, bool gradient);

}  // namespace lockstep::kernels
