#pragma once

#include <dnnl.hpp>
#include <vector>

#include "kernels/kernel.h"

namespace lockstep::kernels {

/// An argument of a primitive as the caller's memory has it.
struct OnednnArgument {
  int argument;  ///< DNNL_ARG_...
  bool input;
  dnnl::memory::desc given;
};

/// A oneDNN primitive; arguments that it wants in another layout are reordered in the workspace, before it
/// (inputs) or after it (outputs). Throws dnnl::error.
KernelPtr onednn_kernel(const dnnl::primitive_desc_base& description,
                        const std::vector<OnednnArgument>& arguments);

/// A reorder alone. Throws dnnl::error.
KernelPtr onednn_reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

}  // namespace lockstep::kernels
