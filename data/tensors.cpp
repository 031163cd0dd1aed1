#include "data/built_in.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::initializer_list<DType> input_dtypes{DType::f32, DType::bf16, DType::f16, DType::u8,
                                                    DType::u16, DType::i32,  DType::i64};

/// A tensor whose first dimension is the samples.
const SafetensorsFile::Tensor& samples_in(const SafetensorsFile& file, const fs::path& path,
                                          const std::string& name, std::initializer_list<DType> dtypes) {
  const auto* found = file.find(name);
  if (found == nullptr) throw DataError(fmt::format("{}: there is no tensor '{}'", path.string(), name));
  if (std::find(dtypes.begin(), dtypes.end(), found->dtype) == dtypes.end()) {
    throw DataError(fmt::format("{}: '{}' is {}, which cannot be used; save it as {}", path.string(), name,
                                name_of(found->dtype), name_of(*dtypes.begin())));
  }
  if (found->shape.rank() == 0 || found->shape.elements() == 0) {
    throw DataError(fmt::format("{}: '{}' ({}) holds no samples", path.string(), name, found->shape.str()));
  }
  return *found;
}

Shape sample_shape(const SafetensorsFile::Tensor& tensor) {
  return Shape(std::vector<std::int64_t>(tensor.shape.begin() + 1, tensor.shape.end()));
}

void copy_row(const SafetensorsFile::Tensor& tensor, std::int64_t index, std::span<std::byte> out) {
  std::memcpy(out.data(), tensor.bytes.data() + static_cast<std::size_t>(index) * out.size(), out.size());
}

class Tensors final : public Dataset {
 public:
  Tensors(const fs::path& path, std::int64_t num_classes)
      : file_(path),
        inputs_(&samples_in(file_, path, "inputs", input_dtypes)),
        targets_(&samples_in(file_, path, "targets", {DType::i64, DType::f32})) {
    if (inputs_->shape[0] != targets_->shape[0]) {
      throw DataError(
          fmt::format("{}: {} inputs, but {} targets", path.string(), inputs_->shape[0], targets_->shape[0]));
    }
    spec_ = {.input_dtype = inputs_->dtype,
             .input_shape = sample_shape(*inputs_),
             .target_dtype = targets_->dtype,
             .target_shape = sample_shape(*targets_),
             .num_classes = targets_->dtype == DType::i64 ? num_classes : 0};
    if (spec_.num_classes > 0) require_classes(path);
  }

  std::int64_t size() const override { return inputs_->shape[0]; }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    copy_row(*inputs_, index, input);
    copy_row(*targets_, index, target);
  }

 private:
  void require_classes(const fs::path& path) const {
    for (std::size_t i = 0; i * sizeof(std::int64_t) < targets_->bytes.size(); ++i) {
      std::int64_t label = 0;
      std::memcpy(&label, targets_->bytes.data() + i * sizeof label, sizeof label);
      if (label >= 0 && label < spec_.num_classes) continue;
      throw DataError(fmt::format("{}: targets[{}] is {}, no class below num_classes {}{}", path.string(), i,
                                  label, spec_.num_classes,
                                  label < 0 ? "" : "; --model-args num_classes=N says how many there are"));
    }
  }

  SafetensorsFile file_;
  const SafetensorsFile::Tensor* inputs_;
  const SafetensorsFile::Tensor* targets_;
  SampleSpec spec_;
};

/// Inputs without targets.
class Inputs final : public Dataset {
 public:
  Inputs(const fs::path& path, const SampleSpec& targets)
      : file_(path), inputs_(&samples_in(file_, path, "inputs", input_dtypes)), spec_(targets) {
    spec_.input_dtype = inputs_->dtype;
    spec_.input_shape = sample_shape(*inputs_);
  }

  std::int64_t size() const override { return inputs_->shape[0]; }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    copy_row(*inputs_, index, input);
    write_no_target(spec_, target);
  }

 private:
  SafetensorsFile file_;
  const SafetensorsFile::Tensor* inputs_;
  SampleSpec spec_;
};

}  // namespace

DatasetPtr open_inputs(const fs::path& file, const SampleSpec& targets) {
  return std::make_shared<Inputs>(file, targets);
}

DatasetPtr open_tensors(const fs::path& file, std::int64_t num_classes) {
  return std::make_shared<Tensors>(file, num_classes);
}

}  // namespace lockstep::data
