#pragma once

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <string_view>
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
  std::function<dnnl::primitive_desc_base(const dnnl::engine&, const onednn::Operands&)> describe;
  /// Its time is that of its products, not of its operands' way through memory.
  bool compute_bound = false;
};

/// Gives every tensor without a layout the one that the fastest kind of implementation wants. Fixed layouts
/// stay, but where activations in them would mean a slow kind, these are overwritten.
void choose_onednn_layouts(const onednn::Context& context, const OnednnOp& op, KernelIo& io);

/// Takes any layouts: where the primitive wants others, it reorders in the workspace.
KernelPtr kernel_of(const onednn::Context& context, const OnednnOp& op, const KernelIo& io);

/// Whether oneDNN has more than a reference implementation of `op`.
bool available(const onednn::Context& context, const OnednnOp& op, const KernelIo& io);

/// Whether oneDNN generates code for these shapes; it has a general and much slower way for all others.
bool generates(const onednn::Context& context, const OnednnOp& op, const KernelIo& io);

/// An argument of a primitive as the caller's memory has it.
struct OnednnArgument {
  int argument;  ///< DNNL_ARG_...
  bool input;
  dnnl::memory::desc given;
};

/// A oneDNN primitive; arguments that it wants in another layout are reordered in the workspace, before it
/// (inputs) or after it (outputs). Throws dnnl::error.
KernelPtr onednn_kernel(const onednn::Context& context, const dnnl::primitive_desc_base& description,
                        const std::vector<OnednnArgument>& arguments);

/// The same numbers in another layout: argument 0 to argument 1. Throws dnnl::error.
KernelPtr onednn_reorder(const onednn::Context& context, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to);

/// The same numbers in another layout or type: input 0 to output 0. `op` is named in errors.
KernelPtr onednn_copy(const onednn::Context& context, std::string_view op, const KernelIo& io);

}  // namespace lockstep::kernels
