#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/built_in.h"
#include "data/initial_states.h"
#include "data/kept_samples.h"
#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using Tensor = SafetensorsFile::Tensor;

constexpr std::initializer_list<DType> input_dtypes{DType::f32, DType::bf16, DType::f16, DType::u8,
                                                    DType::u16, DType::i32,  DType::i64};

/// A tensor whose first dimension is the samples.
const Tensor& samples_in(const SafetensorsFile& file, const fs::path& path, const std::string& name,
                         std::initializer_list<DType> dtypes) {
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

Shape sample_shape(const Tensor& tensor) {
  return Shape(std::vector<std::int64_t>(tensor.shape.begin() + 1, tensor.shape.end()));
}

std::int64_t integer_at(const Tensor& tensor, std::int64_t at) {
  std::int64_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + static_cast<std::size_t>(at) * sizeof value, sizeof value);
  return value;
}

void copy_row(const Tensor& tensor, std::int64_t index, std::span<std::byte> out) {
  std::memcpy(out.data(), tensor.bytes.data() + static_cast<std::size_t>(index) * out.size(), out.size());
}

/// "file.safetensors: src[12, 3]"
std::string place(const fs::path& path, const Tensor& tensor, std::int64_t at) {
  if (tensor.shape.rank() < 2) return fmt::format("{}: {}[{}]", path.string(), tensor.name, at);
  const std::int64_t columns = tensor.shape.elements() / tensor.shape[0];
  return fmt::format("{}: {}[{}, {}]", path.string(), tensor.name, at / columns, at % columns);
}

/// What is known of rows of tokens.
struct TokenRows {
  std::int64_t greatest = 0;
  std::vector<std::int32_t> lengths;  ///< of each row, without its padding
  bool padded = false;                ///< some row has padding
};

/// DataError for what is none, below `vocab_size` if that is not 0, for a row without any, and for padding
/// that is followed by a token.
TokenRows read_tokens(const fs::path& path, const Tensor& tensor, std::int64_t vocab_size) {
  const std::int64_t most = vocab_size > 0 ? vocab_size : most_classes;
  const std::int64_t columns = tensor.shape[1];
  TokenRows rows;
  rows.lengths.resize(static_cast<std::size_t>(tensor.shape[0]));
  std::int64_t before = 0;
  for (std::int64_t at = 0; at < tensor.shape.elements(); ++at) {
    const std::int64_t token = integer_at(tensor, at);
    const bool begins = at % columns == 0;
    if (token < padding_token || token >= most) {
      throw DataError(fmt::format("{} is {}: no token, which are 0 to {}, nor padding, which is {}",
                                  place(path, tensor, at), token, most - 1, padding_token));
    }
    if (begins && token == padding_token)
      throw DataError(fmt::format("{} is padding: a row begins with a token", place(path, tensor, at)));
    if (!begins && before == padding_token && token != padding_token)
      throw DataError(
          fmt::format("{} is a token behind padding: padding comes last", place(path, tensor, at)));
    rows.greatest = std::max(rows.greatest, token);
    rows.padded |= token == padding_token;
    if (token != padding_token)
      rows.lengths[static_cast<std::size_t>(at / columns)] = static_cast<std::int32_t>(at % columns + 1);
    before = token;
  }
  return rows;
}

/// `inputs`, or `src` and `tgt`, which are a row together.
class InputTensors {
 public:
  /// Sets what `spec` says of inputs. With `tokens` i64 inputs of two dimensions are such, below `vocab_size`
  /// if that is not 0; else the greatest sets the vocabulary.
  InputTensors(const SafetensorsFile& file, const fs::path& path, bool tokens, std::int64_t vocab_size,
               SampleSpec& spec) {
    const bool pairs = file.find("inputs") == nullptr && file.find("src") != nullptr;
    if (pairs) {
      parts_ = {&samples_in(file, path, "src", {DType::i64}), &samples_in(file, path, "tgt", {DType::i64})};
      require_pairs(path, tokens);
      spec.source_length = parts_[0]->shape[1];
      spec.input_shape = {parts_[0]->shape[1] + parts_[1]->shape[1]};
    } else {
      parts_ = {&samples_in(file, path, "inputs", input_dtypes)};
      spec.input_shape = sample_shape(*parts_[0]);
    }
    spec.input_dtype = parts_[0]->dtype;
    spec.vocab_size = 0;
    if (!tokens || spec.input_dtype != DType::i64 || spec.input_shape.rank() != 1) return;
    std::int64_t greatest = 0;
    for (const Tensor* part : parts_) {
      last_ = read_tokens(path, *part, vocab_size);
      greatest = std::max(greatest, last_.greatest);
    }
    spec.vocab_size = vocab_size > 0 ? vocab_size : greatest + 1;
  }

  const Tensor& first() const { return *parts_[0]; }
  const std::vector<const Tensor*>& parts() const { return parts_; }
  /// Of the sequence whose tokens have classes.
  std::int64_t length() const { return parts_.back()->shape[1]; }
  std::int64_t samples() const { return parts_[0]->shape[0]; }
  /// Of that sequence: where rows end, if some end in padding.
  const TokenRows& rows() const { return last_; }

  void copy(std::int64_t index, std::span<std::byte> out) const {
    if (parts_.size() == 1) return copy_row(*parts_[0], index, out);
    const std::size_t source = static_cast<std::size_t>(parts_[0]->shape[1]) * sizeof(std::int64_t);
    copy_row(*parts_[0], index, out.first(source));
    copy_row(*parts_[1], index, out.subspan(source));
  }

 private:
  void require_pairs(const fs::path& path, bool tokens) const {
    if (!tokens)
      throw DataError(
          fmt::format("{}: 'src' and 'tgt' are tokens, which this model does not take; it takes "
                      "'inputs'",
                      path.string()));
    for (const Tensor* part : parts_) {
      if (part->shape.rank() == 2 && part->shape[0] == samples()) continue;
      throw DataError(
          fmt::format("{}: 'src' ({}) and 'tgt' ({}): sequences of tokens are wanted, as many of "
                      "each",
                      path.string(), parts_[0]->shape.str(), parts_[1]->shape.str()));
    }
  }

  std::vector<const Tensor*> parts_;
  TokenRows last_;
};

class Tensors final : public Dataset, public std::enable_shared_from_this<Tensors> {
 public:
  explicit Tensors(const DatasetOptions& options)
      : file_(options.data_dir),
        inputs_(file_, options.data_dir, options.vocab_size > 0,
                options.vocab_size_given ? options.vocab_size : 0, spec_),
        targets_(&samples_in(file_, options.data_dir, "targets", {DType::i64, DType::f32})),
        states_(file_, options.data_dir, options.states_shape, inputs_.samples()) {
    const fs::path& path = options.data_dir;
    spec_.states_shape = states_.shape();
    if (inputs_.samples() != targets_->shape[0]) {
      throw DataError(
          fmt::format("{}: {} inputs, but {} targets", path.string(), inputs_.samples(), targets_->shape[0]));
    }
    spec_.target_dtype = targets_->dtype;
    spec_.target_shape = sample_shape(*targets_);
    if (targets_->dtype != DType::i64 || options.num_classes == 0) return;
    spec_.num_classes = options.num_classes;
    if (options.classes_are_tokens && spec_.vocab_size > 0) take_classes_of_tokens(options.vocab_size_given);
    require_classes(path);
    if (spec_.vocab_size > 0 && spec_.target_shape.rank() == 1 && spec_.target_shape[0] != inputs_.length()) {
      throw DataError(
          fmt::format("{}: {} classes a sample, but {} tokens: give a class for each or one for "
                      "all",
                      path.string(), spec_.target_shape[0], inputs_.length()));
    }
  }

  std::int64_t size() const override { return inputs_.samples(); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t valid_targets(std::int64_t index, std::int64_t) const override {
    const std::size_t bytes = spec_.target_bytes();
    return valid_targets_in(spec_, {},
                            targets_->bytes.subspan(static_cast<std::size_t>(index) * bytes, bytes));
  }

  std::int64_t length(std::int64_t index) const override {
    if (!inputs_.rows().padded) return 0;
    std::int64_t needed = inputs_.rows().lengths[static_cast<std::size_t>(index)];
    const std::int64_t classes =
        spec_.num_classes > 0 && spec_.target_shape.rank() == 1 ? inputs_.length() : 0;
    for (std::int64_t at = classes; at > needed; --at) {
      if (integer_at(*targets_, index * classes + at - 1) != no_class) needed = at;
    }
    return spec_.source_length + needed;
  }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    inputs_.copy(index, input);
    copy_row(*targets_, index, target);
  }
  void get_states(std::int64_t index, std::span<std::byte> states) const override {
    states_.copy(index, states);
  }
  void each_content(const TakeBytes& take) const override {
    for (const Tensor* part : inputs_.parts()) take(part->bytes);
    take(targets_->bytes);
  }
  DatasetPtr as_kept(std::int64_t first) const override {
    return inputs_.rows().padded ? nullptr : make_kept_samples(shared_from_this(), first);
  }

 private:
  /// The vocabulary is that of inputs and targets together, unless a user has said it.
  void take_classes_of_tokens(bool given) {
    for (std::int64_t at = 0; !given && at < targets_->shape.elements(); ++at) {
      const std::int64_t label = integer_at(*targets_, at);
      if (label < most_classes) spec_.vocab_size = std::max(spec_.vocab_size, label + 1);
    }
    spec_.num_classes = spec_.vocab_size;
  }

  void require_classes(const fs::path& path) const {
    bool any_counts = false;
    for (std::int64_t at = 0; at < targets_->shape.elements(); ++at) {
      const std::int64_t label = integer_at(*targets_, at);
      any_counts = any_counts || label != no_class;
      if ((label >= 0 && label < spec_.num_classes) || label == no_class) continue;
      const char* hint =
          label < 0 ? ", nor -100 (none)" : "; --model-args num_classes=N says how many there are";
      throw DataError(fmt::format("{} is {}, no class below num_classes {}{}", place(path, *targets_, at),
                                  label, spec_.num_classes, hint));
    }
    if (!any_counts)
      throw DataError(
          fmt::format("{}: all targets are -100 (none): there is nothing to learn", path.string()));
  }

  SafetensorsFile file_;
  SampleSpec spec_;
  InputTensors inputs_;
  const Tensor* targets_;
  InitialStates states_;
};

/// Inputs without targets.
class Inputs final : public Dataset {
 public:
  Inputs(const fs::path& path, const SampleSpec& targets, bool per_token)
      : file_(path),
        spec_(targets),
        inputs_(file_, path, targets.vocab_size > 0, 0, spec_),
        states_(file_, path, targets.states_shape, inputs_.samples()) {
    spec_.states_shape = states_.shape();
    if (per_token && spec_.target_shape.rank() > 0 && inputs_.first().shape.rank() > 1)
      spec_.target_shape[0] = inputs_.length();
  }

  std::int64_t size() const override { return inputs_.samples(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    inputs_.copy(index, input);
    write_no_target(spec_, target);
  }
  void get_states(std::int64_t index, std::span<std::byte> states) const override {
    states_.copy(index, states);
  }

 private:
  SafetensorsFile file_;
  SampleSpec spec_;
  InputTensors inputs_;
  InitialStates states_;
};

}  // namespace

DatasetPtr open_inputs(const fs::path& file, const SampleSpec& targets, bool per_token) {
  return std::make_shared<Inputs>(file, targets, per_token);
}

DatasetPtr open_tensors(const DatasetOptions& options) {
  return std::make_shared<Tensors>(options);
}

}  // namespace lockstep::data
