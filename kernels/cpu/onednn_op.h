#pragma once

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/onednn.h"
#include "kernels/kernel.h"
#include "kernels/layout.h"

namespace lockstep::kernels {

/// An op that oneDNN computes: how the tensors of a KernelIo become a primitive's arguments.
struct OnednnOp {
  enum class Role { activation, weights, vector };
  struct Operand {
    int argument;  ///< DNNL_ARG_...
    dnnl::memory::desc onednn::Operands::*place;
    Role role;
    std::int64_t groups = 1;
  };

  std::string name;               ///< for messages
  std::vector<Operand> operands;  ///< inputs, then outputs
  /// Throws dnnl::error if there is no implementation for these descriptors.
  std::function<dnnl::primitive_desc_base(const onednn::Operands&)> describe;
};

/// Gives every tensor without a layout the one that the fastest kind of implementation wants. Fixed layouts
/// stay, but where activations in them would mean a slow kind, these are overwritten.
void choose_onednn_layouts(const OnednnOp& op, KernelIo& io);

/// Takes any layouts: where the primitive wants others, it reorders in the workspace.
KernelPtr kernel_of(const OnednnOp& op, const KernelIo& io);

/// Whether oneDNN has more than a reference implementation of `op`.
bool available(const OnednnOp& op, const KernelIo& io);

}  // namespace lockstep::kernels
