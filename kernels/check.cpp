#include "kernels/check.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::kernels {

void check_count(std::string_view kernel, const KernelIo& io, std::size_t inputs, std::size_t outputs) {
  if (io.inputs.size() == inputs && io.outputs.size() == outputs) return;
  throw UsageError(fmt::format("{}: wants {} inputs and {} outputs, got {} and {}", kernel, inputs, outputs,
                               io.inputs.size(), io.outputs.size()));
}

void check_shape(std::string_view kernel, std::string_view name, const TensorDesc& desc,
                 const Shape& wanted) {
  if (desc.shape == wanted) return;
  throw UsageError(fmt::format("{}: {} is {}, must be {}", kernel, name, desc.shape.str(), wanted.str()));
}

void check_type(std::string_view kernel, std::string_view name, const TensorDesc& desc, DType wanted) {
  if (desc.dtype == wanted) return;
  throw UsageError(
      fmt::format("{}: {} is {}, must be {}", kernel, name, name_of(desc.dtype), name_of(wanted)));
}

void check_rank(std::string_view kernel, std::string_view name, const TensorDesc& desc, std::size_t rank) {
  if (desc.shape.rank() == rank) return;
  throw UsageError(
      fmt::format("{}: {} is {}, must have {} dimensions", kernel, name, desc.shape.str(), rank));
}

void check_plain(std::string_view kernel, std::string_view name, const TensorDesc& desc) {
  if (!desc.layout || desc.layout->is_plain(desc.shape)) return;
  throw UsageError(fmt::format("{}: {} lies in {}, must be plain", kernel, name, desc.layout->str()));
}

void check_strided(std::string_view kernel, std::string_view name, const TensorDesc& desc) {
  if (!desc.layout || desc.layout->blocks.empty()) return;
  throw UsageError(
      fmt::format("{}: {} lies in {}, must not lie in blocks", kernel, name, desc.layout->str()));
}

}  // namespace lockstep::kernels
