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

class Tensors final : public Dataset {
 public:
  explicit Tensors(const fs::path& path)
      : file_(path),
        inputs_(
            &tensor(path, "inputs",
                    {DType::f32, DType::bf16, DType::f16, DType::u8, DType::u16, DType::i32, DType::i64})),
        targets_(&tensor(path, "targets", {DType::i64, DType::f32})) {
    if (inputs_->shape[0] != targets_->shape[0]) {
      throw DataError(
          fmt::format("{}: {} inputs, but {} targets", path.string(), inputs_->shape[0], targets_->shape[0]));
    }
    spec_ = {.input_dtype = inputs_->dtype,
             .input_shape = sample_shape(*inputs_),
             .target_dtype = targets_->dtype,
             .target_shape = sample_shape(*targets_),
             .num_classes = targets_->dtype == DType::i64 ? classes(path) : 0};
  }

  std::int64_t size() const override { return inputs_->shape[0]; }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    copy_row(*inputs_, index, input);
    copy_row(*targets_, index, target);
  }

 private:
  const SafetensorsFile::Tensor& tensor(const fs::path& path, const std::string& name,
                                        std::initializer_list<DType> dtypes) const {
    const auto* found = file_.find(name);
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

  static Shape sample_shape(const SafetensorsFile::Tensor& tensor) {
    return Shape(std::vector<std::int64_t>(tensor.shape.begin() + 1, tensor.shape.end()));
  }

  std::int64_t classes(const fs::path& path) const {
    std::int64_t highest = 0;
    for (std::size_t offset = 0; offset < targets_->bytes.size(); offset += sizeof(std::int64_t)) {
      std::int64_t label = 0;
      std::memcpy(&label, targets_->bytes.data() + offset, sizeof label);
      if (label < 0)
        throw DataError(fmt::format("{}: 'targets' holds the negative class {}", path.string(), label));
      if (label >= most_classes) {
        throw DataError(fmt::format("{}: 'targets' holds the class {}, the highest may be {}", path.string(),
                                    label, most_classes - 1));
      }
      highest = std::max(highest, label);
    }
    return highest + 1;
  }

  static void copy_row(const SafetensorsFile::Tensor& tensor, std::int64_t index, std::span<std::byte> out) {
    std::memcpy(out.data(), tensor.bytes.data() + static_cast<std::size_t>(index) * out.size(), out.size());
  }

  SafetensorsFile file_;
  const SafetensorsFile::Tensor* inputs_;
  const SafetensorsFile::Tensor* targets_;
  SampleSpec spec_;
};

}  // namespace

DatasetPtr open_tensors(const fs::path& file) {
  return std::make_shared<Tensors>(file);
}

}  // namespace lockstep::data
