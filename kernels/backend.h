#pragma once

#include "kernels/device.h"
#include "kernels/spec.h"

namespace lockstep::kernels {

/// A Device whose kernels are the overloads for `Tag` in the ops' headers. What a header does not overload
/// has no preference: layouts stay open, and there is but one algorithm.
template <class Tag>
class Backend : public Device {
 public:
  KernelPtr prepare(const KernelSpec& any, const KernelIo& io) const override {
    return std::visit([&](const auto& spec) { return kernels::prepare(Tag{}, spec, io); }, any);
  }

  void choose_layouts(const KernelSpec& any, KernelIo& io) const override {
    const auto choose = [&](const auto& spec) {
      if constexpr (requires { kernels::choose_layouts(Tag{}, spec, io); }) {
        kernels::choose_layouts(Tag{}, spec, io);
      }
    };
    std::visit(choose, any);
  }

  std::vector<ConvAlgorithm> algorithms(const KernelSpec& any, const KernelIo& io) const override {
    const auto offer = [&](const auto& spec) -> std::vector<ConvAlgorithm> {
      if constexpr (requires { kernels::algorithms(Tag{}, spec, io); }) {
        return kernels::algorithms(Tag{}, spec, io);
      }
      return {ConvAlgorithm::automatic};
    };
    return std::visit(offer, any);
  }
};

}  // namespace lockstep::kernels
