#pragma once

#include "kernels/device.h"
#include "kernels/spec.h"

namespace lockstep::kernels {

#define LOCKSTEP_OP(Op, header)                                       \
  KernelPtr prepare(Cpu, const Op&, const KernelIo&);                 \
  KernelPtr prepare(Cuda, const Op&, const KernelIo&);                \
  void choose_layouts(Cpu, const Op&, KernelIo&);                     \
  void choose_layouts(Cuda, const Op&, KernelIo&);                    \
  std::vector<Algorithm> algorithms(Cpu, const Op&, const KernelIo&); \
  std::vector<Algorithm> algorithms(Cuda, const Op&, const KernelIo&);
#include "kernels/ops.def"

/// A Device whose kernels are the overloads for `Tag`. `choose_layouts` need be there for an op with
/// LayoutRule::by_kernel alone, `algorithms` for one whose description has an `algorithm`.
template <class Tag>
class Backend : public Device {
 public:
  KernelPtr make_kernel(const KernelSpec& any, const KernelIo& io) const override {
    return std::visit([&](const auto& spec) { return kernels::prepare(tag(), spec, io); }, any);
  }

  void assign_layouts(const KernelSpec& any, KernelIo& io) const override {
    const auto choose = [&]<class Op>(const Op& spec) {
      if constexpr (Op::layouts == LayoutRule::by_kernel) kernels::choose_layouts(tag(), spec, io);
    };
    std::visit(choose, any);
  }

  std::vector<Algorithm> offered_algorithms(const KernelSpec& any, const KernelIo& io) const override {
    const auto offer = [&](const auto& spec) -> std::vector<Algorithm> {
      if constexpr (requires { spec.algorithm; }) return kernels::algorithms(tag(), spec, io);
      return {};
    };
    return std::visit(offer, any);
  }

 private:
  virtual Tag tag() const = 0;
};

}  // namespace lockstep::kernels
