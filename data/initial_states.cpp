#include "data/initial_states.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

using Tensor = SafetensorsFile::Tensor;

constexpr std::array names{"h0", "c0"};

std::string described(const Shape& shape) {
  return fmt::format("f32 {} (samples, layers, hidden)", shape.str());
}

void require_fitting(const std::string& path, const Tensor& tensor, const Shape& fitting) {
  if (tensor.dtype == DType::f32 && tensor.shape == fitting) return;
  const bool is_torchs = tensor.shape == Shape{fitting[1], fitting[0], fitting[2]};
  throw DataError(fmt::format("{}: '{}' is {} {}, must be {}{}", path, tensor.name, name_of(tensor.dtype),
                              tensor.shape.str(), described(fitting),
                              is_torchs ? "; PyTorch's is transposed: save transpose(0, 1)" : ""));
}

}  // namespace

InitialStates::InitialStates(const SafetensorsFile& file, const std::filesystem::path& path,
                             const Shape& wanted, std::int64_t samples) {
  const std::size_t taken = wanted.rank() == 0 ? 0 : static_cast<std::size_t>(wanted[0]);
  std::array<const Tensor*, names.size()> found{};
  std::ranges::transform(names, found.begin(), [&](const char* name) { return file.find(name); });
  const auto present = std::ranges::find_if(found, [](const Tensor* tensor) { return tensor != nullptr; });
  if (present == found.end()) return;
  if (taken == 0) {
    throw DataError(
        fmt::format("{}: '{}' is a state before the first step, which this model does not take; leave it out",
                    path.string(), (*present)->name));
  }
  const Shape fitting{samples, wanted[1], wanted[2]};
  for (std::size_t kind = 0; kind < found.size(); ++kind) {
    if (kind >= taken && found[kind] != nullptr) {
      throw DataError(fmt::format("{}: '{}': this model has no cells and takes '{}' alone, {}", path.string(),
                                  names[kind], names[0], described(fitting)));
    }
    if (kind < taken && found[kind] == nullptr) {
      throw DataError(fmt::format("{}: there is '{}' but no '{}', which must be {}", path.string(),
                                  (*present)->name, names[kind], described(fitting)));
    }
  }
  kinds_.assign(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(taken));
  for (const Tensor* kind : kinds_) require_fitting(path.string(), *kind, fitting);
  shape_ = wanted;
}

void InitialStates::copy(std::int64_t index, std::span<std::byte> out) const {
  const std::size_t bytes = out.size() / kinds_.size();
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    std::memcpy(out.data() + kind * bytes,
                kinds_[kind]->bytes.data() + static_cast<std::size_t>(index) * bytes, bytes);
  }
}

}  // namespace lockstep::data
