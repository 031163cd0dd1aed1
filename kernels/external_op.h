#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/base/export.h"
#include "kernels/kernel.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// A prepared kernel of an external op on the CPU. `run` computes one launch on the calling thread and, by
/// `parallel_ranges`, its team; it allocates nothing. What it throws ends the run as a UsageError that names
/// op and plugin.
struct ExternalKernel {
  std::function<void(const Addresses&)> run;
  std::size_t workspace_bytes = 0;  ///< scratch memory of a launch, 256-byte aligned
};

/// An op of a plugin, or of a person's own program, or the gradient of one. All tensors are row-major.
/// Immutable: graphs and threads share it.
class LOCKSTEP_API ExternalRules {
 public:
  virtual ~ExternalRules() = default;
  /// The name in LOCKSTEP_PLUGIN; a program's own ops give the program's.
  virtual std::string plugin() const = 0;
  /// For plans, messages and checkpoints: "softsign". The plugin registers the names of its forward ops.
  virtual std::string name() const = 0;
  /// Values that decide the result, "slope 0.1": ranks compare them before step 1.
  virtual std::string attributes() const { return {}; }

  /// The types of the outputs; those of a gradient op are the types of the inputs it is the gradient of.
  /// `throw_misfit` refuses inputs; the caller adds op and layer.
  virtual Types infer(TypeSpan inputs) const = 0;
  /// Floating-point operations of one launch: as many as output 0 has elements, unless overridden.
  virtual double flops(TypeSpan inputs, TypeSpan outputs) const;
  /// Whether what it gives for a token of a sequence, (N, T, ...) or (T, N, ...), follows from its inputs for
  /// that token alone. A model with an op that does not say so writes no text (`trainer predict --prompt`).
  virtual bool keeps_positions() const { return false; }
  /// Called once for each plan, with tensors that `infer` accepts.
  virtual ExternalKernel cpu_kernel(const KernelIo& io) const = 0;
};

/// What differs from the defaults, already a text.
struct ExternalAttributes {
  std::string text;
};

/// The description of an external op: the one alternative of KernelSpec (spec.h) that is open.
struct LOCKSTEP_API ExternalOp {
  static constexpr std::string_view name = "external";
  static constexpr LayoutRule layouts = LayoutRule::row_major;

  std::shared_ptr<const ExternalRules> rules;  ///< null in the description without values

  std::string title() const { return rules ? rules->name() : std::string(name); }
  /// "op 'softsign' of plugin 'p'", for messages.
  std::string whose() const;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("attributes", ExternalAttributes{attributes()});
  }

  /// What the rules give. UsageError in place of what they throw that is no Error (kernels/base/rethrow.h).
  std::string attributes() const;
  /// And without rules.
  Types infer(TypeSpan in) const;
  double flops(TypeSpan in, TypeSpan out) const;
  bool keeps_positions() const;
};

}  // namespace lockstep::kernels
