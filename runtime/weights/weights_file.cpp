#include "runtime/weights/weights_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/half.h"
#include "kernels/base/json.h"
#include "kernels/base/typed_words.h"
#include "runtime/weights/torch_file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

/// In this order, as `transformers` looks for them.
constexpr std::array files_of_folders{weights_file_name, shard_index_file, torch_weights_file_name,
                                      torch_shard_index_file};

fs::path file_in(const fs::path& path) {
  if (!fs::is_directory(status_at(path))) return path;
  if (const auto file = weights_in(path)) return *file;
  throw DataError(fmt::format("{}: holds none of {}", path.string(), fmt::join(files_of_folders, ", ")));
}

/// torch.save writes a ZIP file, whatever its name. DataError for what it wrote before PyTorch 1.6, pickles
/// one behind the other, the first of which is a number of ten bytes.
bool is_of_torch_save(const fs::path& file) {
  const MappedFile mapped(file);
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  if (bytes.starts_with("\x80\x02\x8a\x0a")) {
    throw DataError(
        fmt::format("{}: torch.save's format of before PyTorch 1.6: load it, and save it again by "
                    "torch.save of 1.6 or later",
                    file.string()));
  }
  return bytes.starts_with("PK\3\4") || file.extension() == ".pt" || file.extension() == ".pth";
}

/// The file of each tensor, by name. A shard is a file beside the index: a name with a folder is refused.
std::map<std::string, std::string> read_index(const fs::path& index) {
  try {
    const auto shards =
        Json::parse(whole_text(index)).at("weight_map").get<std::map<std::string, std::string>>();
    for (const auto& [tensor, file] : shards) {
      if (fs::path(file).filename() == file) continue;
      throw DataError(fmt::format("{}: tensor '{}' is in '{}', which is no file beside the index",
                                  index.string(), tensor, file));
    }
    return shards;
  } catch (const JsonError& error) {
    throw DataError(fmt::format("{}: is no index of shards: {}", index.string(), error.what()));
  }
}

template <class Element, class Convert>
std::vector<float> convert(std::span<const std::byte> bytes, Convert&& to_float) {
  std::vector<float> values(bytes.size() / sizeof(Element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    values[i] = to_float(element);
  }
  return values;
}

/// Empty where the metadata have no such key.
std::string text_in(const std::vector<SafetensorsFile>& files, const char* key) {
  for (const SafetensorsFile& file : files) {
    const auto found = file.metadata().find(key);
    if (found != file.metadata().end()) return found->second;
  }
  return {};
}

/// `otherwise` where the metadata have no such list or map.
template <class T>
T json_in(const std::vector<SafetensorsFile>& files, const char* key, const T& otherwise) {
  return Json::parse_or_null(text_in(files, key)).get_or(otherwise);
}

const WeightsTensor& matching_tensor(const WeightsFile& file, const std::string& name, DType dtype,
                                     const Shape& shape) {
  const WeightsTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw DataError(fmt::format("{}: has no tensor '{}', which the model needs{}", file.path().string(), name,
                                did_you_mean(name, file.names())));
  }
  if (tensor->shape != shape || (tensor->dtype != dtype && dtype != DType::f32)) {
    throw DataError(fmt::format("{}: tensor '{}' is {} {}, the model needs {} {}", tensor->file.string(),
                                tensor->shown_name(), name_of(tensor->dtype), tensor->shape.str(),
                                name_of(dtype), shape.str()));
  }
  return *tensor;
}

}  // namespace

std::optional<fs::path> weights_in(const fs::path& folder) {
  for (const char* name : files_of_folders) {
    if (fs::exists(status_at(folder / name))) return folder / name;
  }
  return std::nullopt;
}

WeightsFile::WeightsFile(const fs::path& path) : path_(path) {
  const fs::path file = file_in(path);
  if (file.extension() == ".json") {
    add_shards(file);
  } else {
    add_file(file);
  }
}

void WeightsFile::add_file(const fs::path& file) {
  if (is_of_torch_save(file)) {
    torch_files_.push_back(std::make_shared<const TorchFile>(file));
    const auto& tensors = torch_files_.back()->tensors();
    tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
    return;
  }
  files_.emplace_back(file);
  for (const auto& tensor : files_.back().tensors()) {
    tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes, file});
  }
}

void WeightsFile::add_shards(const fs::path& index) {
  const std::map<std::string, std::string> file_of = read_index(index);
  std::vector<std::string> files;
  for (const auto& [tensor, file] : file_of) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
  std::ranges::sort(files);
  for (const std::string& file : files) add_file(index.parent_path() / file);
  for (const auto& [tensor, file] : file_of) {
    if (const auto* found = find(tensor); found != nullptr && found->file.filename() == file) continue;
    throw DataError(fmt::format("{}: tensor '{}' is not in {}", index.string(), tensor, file));
  }
  if (tensors_.size() == file_of.size()) return;
  throw DataError(fmt::format("{}: lists {} tensors, its shards hold {}", index.string(), file_of.size(),
                              tensors_.size()));
}

const WeightsTensor* WeightsFile::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &WeightsTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void WeightsFile::rename(const std::function<std::string(const std::string&)>& name_of) {
  for (WeightsTensor& tensor : tensors_) {
    std::string name = name_of(tensor.name);
    if (name == tensor.name) continue;
    if (tensor.name_in_file.empty()) tensor.name_in_file = tensor.name;
    tensor.name = std::move(name);
  }
  std::erase_if(tensors_, [](const WeightsTensor& tensor) { return tensor.name.empty(); });
}

void WeightsFile::drop_wrappers() {
  const std::string compiled = "_orig_mod.";
  const std::string parallel = "module.";
  for (WeightsTensor& tensor : tensors_) {
    for (auto at = tensor.name.find(compiled); at != std::string::npos; at = tensor.name.find(compiled))
      tensor.name.erase(at, compiled.size());
  }
  const std::string averaged = "n_averaged";  // AveragedModel's count, beside the model that it wraps
  const auto is_parallel = [&](const WeightsTensor& tensor) {
    return tensor.name.starts_with(parallel) || tensor.name == averaged;
  };
  if (!std::ranges::all_of(tensors_, is_parallel)) return;
  std::erase_if(tensors_, [&](const WeightsTensor& tensor) { return tensor.name == averaged; });
  for (WeightsTensor& tensor : tensors_) tensor.name.erase(0, parallel.size());
}

void WeightsFile::transpose(const std::function<bool(const std::string& name)>& is_one) {
  for (WeightsTensor& tensor : tensors_) {
    if (!is_one(tensor.name)) continue;
    if (tensor.shape.rank() != 2) {
      throw DataError(fmt::format("{}: tensor '{}' is {}, no matrix", tensor.file.string(),
                                  tensor.shown_name(), tensor.shape.str()));
    }
    const auto rows = static_cast<std::size_t>(tensor.shape[0]),
               columns = static_cast<std::size_t>(tensor.shape[1]);
    const std::size_t size = size_of(tensor.dtype);
    std::vector<std::byte>& turned = made_.emplace_back(tensor.bytes.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        std::memcpy(turned.data() + (column * rows + row) * size,
                    tensor.bytes.data() + (row * columns + column) * size, size);
      }
    }
    tensor.shape = {tensor.shape[1], tensor.shape[0]};
    tensor.bytes = turned;
  }
}

void WeightsFile::add_zeros(const std::string& name, const Shape& shape) {
  const std::vector<std::byte>& zeros = made_.emplace_back(bytes_of(DType::f32, shape));
  tensors_.push_back({.name = name, .dtype = DType::f32, .shape = shape, .bytes = zeros, .file = path_});
}

std::map<std::string, std::string> WeightsFile::model_args() const {
  return torch_files_.empty() ? std::map<std::string, std::string>() : torch_files_.front()->model_args();
}

std::vector<std::string> WeightsFile::names() const {
  std::vector<std::string> names;
  for (const WeightsTensor& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

std::vector<std::string> WeightsFile::class_names() const {
  return json_in<std::vector<std::string>>(files_, KeptNames::classes_key, {});
}

std::vector<std::string> WeightsFile::token_names() const {
  return json_in<std::vector<std::string>>(files_, KeptNames::tokens_key, {});
}

std::string WeightsFile::tokenizer_fingerprint() const {
  return text_in(files_, KeptNames::tokenizer_key);
}

std::map<std::string, std::string> WeightsFile::tokenizer_rules() const {
  return json_in<std::map<std::string, std::string>>(files_, KeptNames::rules_key, {});
}

std::optional<Shape> WeightsFile::values_shape() const {
  const auto extents = json_in<std::vector<std::int64_t>>(files_, KeptNames::values_key, {0});
  if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 1; })) return std::nullopt;
  return Shape(extents);
}

std::vector<float> to_floats(const WeightsTensor& tensor) {
  switch (tensor.dtype) {
    case DType::f32:
      return convert<float>(tensor.bytes, [](float value) { return value; });
    case DType::f64:
      return convert<double>(tensor.bytes, [](double value) { return static_cast<float>(value); });
    case DType::bf16:
      return convert<BFloat16>(tensor.bytes, [](BFloat16 value) { return widen(value); });
    case DType::f16:
      return convert<Float16>(tensor.bytes, [](Float16 value) { return widen(value); });
    default:
      throw DataError(fmt::format("{}: tensor '{}' is {}, the model needs f32", tensor.file.string(),
                                  tensor.name, name_of(tensor.dtype)));
  }
}

std::vector<float> needed_words(const WeightsFile& file, const std::string& name, DType dtype,
                                const Shape& shape) {
  std::vector<float> words(bytes_of(dtype, shape) / sizeof(float));
  if (name.ends_with(".num_batches_tracked") && file.find(name) == nullptr) return words;
  const WeightsTensor& tensor = matching_tensor(file, name, dtype, shape);
  if (dtype == DType::f32) return to_floats(tensor);
  std::memcpy(words.data(), tensor.bytes.data(), tensor.bytes.size());
  return words;
}

}  // namespace lockstep::runtime
