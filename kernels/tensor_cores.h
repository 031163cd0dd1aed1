#pragma once

namespace lockstep::kernels {

/// What kernels of our own are that multiply on a GPU's tensor cores; of a library's plan its notes tell it.
struct OnTensorCores {
  virtual ~OnTensorCores() = default;
};

}  // namespace lockstep::kernels
