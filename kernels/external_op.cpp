#include "kernels/external_op.h"

#include <fmt/format.h>

#include "kernels/base/rethrow.h"

namespace lockstep::kernels {
namespace {

template <class Code>
auto naming(const ExternalOp& op, const char* function, Code&& code) {
  try {
    return code();
  } catch (...) {
    rethrow_as<UsageError>(fmt::format("{} of {}", function, op.whose()));
  }
}

}  // namespace

double ExternalRules::flops(TypeSpan, TypeSpan outputs) const {
  return outputs.empty() ? 0 : static_cast<double>(outputs.front().shape.elements());
}

std::string ExternalOp::whose() const {
  return fmt::format("op '{}' of plugin '{}'", rules->name(), rules->plugin());
}

std::string ExternalOp::attributes() const {
  if (!rules) return {};
  return naming(*this, "attributes", [this] { return rules->attributes(); });
}

Types ExternalOp::infer(TypeSpan in) const {
  if (!rules) throw_misfit("its ExternalOp has no rules");
  return naming(*this, "infer", [&] { return rules->infer(in); });
}

double ExternalOp::flops(TypeSpan in, TypeSpan out) const {
  if (!rules) return 0;
  return naming(*this, "flops", [&] { return rules->flops(in, out); });
}

bool ExternalOp::keeps_positions() const {
  if (!rules) return false;
  return naming(*this, "keeps_positions", [this] { return rules->keeps_positions(); });
}

}  // namespace lockstep::kernels
