#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/safetensors.h"
#include "kernels/base/shape.h"

namespace lockstep::runtime {

/// Hugging Face's names for a model's file, and for the list of its shards, which stands beside them.
inline constexpr const char* weights_file_name = "model.safetensors";
inline constexpr const char* shard_index_file = "model.safetensors.index.json";
/// The same of before safetensors, as torch.save writes them.
inline constexpr const char* torch_weights_file_name = "pytorch_model.bin";
inline constexpr const char* torch_shard_index_file = "pytorch_model.bin.index.json";

/// A tensor in one of the files of a model; its bytes live as long as the WeightsFile.
struct WeightsTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::filesystem::path file{};  ///< that holds it, for messages
  std::string name_in_file{};    ///< the same; empty: its name
  const std::string& shown_name() const { return name_in_file.empty() ? name : name_in_file; }
};

class TorchFile;

/// What is kept with weights of what their numbers mean: names by number, either list may be empty, which
/// tokenizer has the tokens, or the shape of the values that a sample's targets are.
struct KeptNames {
  std::vector<std::string> classes{};
  std::vector<std::string> tokens{};
  std::string tokenizer{};  ///< data::fingerprint_of; empty: tokens are characters, or nothing tells
  std::map<std::string, std::string> tokenizer_rules{};  ///< data::TokenizerRules of it
  std::optional<Shape> values{};                         ///< none: the targets are classes, or nothing tells

  // Where the metadata of a file of weights have each, as JSON but for the fingerprint.
  static constexpr const char* classes_key = "class_names";
  static constexpr const char* tokens_key = "token_names";
  static constexpr const char* tokenizer_key = "tokenizer_fingerprint";
  static constexpr const char* rules_key = "tokenizer_rules";
  static constexpr const char* values_key = "values_shape";
};

/// The file in `folder` that a WeightsFile of it opens: of several the one that `transformers` takes.
std::optional<std::filesystem::path> weights_in(const std::filesystem::path& folder);

/// The weights of a model by name, however they are stored: FILE.safetensors; a file of torch.save; a folder
/// with an index of shards, and these, or that index itself; a folder with model.safetensors or
/// pytorch_model.bin, as Hugging Face writes them. DataError names the file and what is wrong.
class WeightsFile {
 public:
  explicit WeightsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<WeightsTensor>& tensors() const { return tensors_; }
  const WeightsTensor* find(const std::string& name) const;
  std::vector<std::string> names() const;
  /// What the classifier's classes are called, by number; empty if the files do not tell.
  std::vector<std::string> class_names() const;
  /// The same of the tokens that it was trained on: characters.
  std::vector<std::string> token_names() const;
  /// data::fingerprint_of the tokenizer that had them; empty if the files do not tell.
  std::string tokenizer_fingerprint() const;
  /// And its rules: empty in files from before these were kept.
  std::map<std::string, std::string> tokenizer_rules() const;
  /// What a training script keeps of the model beside its weights, as nanoGPT does under `model_args`: names
  /// and values. Empty elsewhere.
  std::map<std::string, std::string> model_args() const;
  /// The shape of the values that the model learned to give for a sample; none if the files do not tell.
  std::optional<Shape> values_shape() const;

  /// Calls each tensor `name_of(its name)`, and leaves those out for which that is empty.
  void rename(const std::function<std::string(const std::string&)>& name_of);
  /// Drops what PyTorch's wrappers of a module put into its names: `_orig_mod.` of torch.compile anywhere,
  /// and `module.` of DistributedDataParallel where all names begin with it.
  void drop_wrappers();
  /// Turns matrices (O, I) into (I, O). DataError for a tensor of another rank.
  void transpose(const std::function<bool(const std::string& name)>& is_one);
  /// Adds a tensor of zeros, f32, that the file does without.
  void add_zeros(const std::string& name, const Shape& shape);

 private:
  void add_file(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::shared_ptr<const TorchFile>> torch_files_;
  std::deque<std::vector<std::byte>> made_;  ///< bytes of tensors that are not as a file has them
  std::vector<WeightsTensor> tensors_;
};

/// The elements as f32; f64 is rounded. DataError for integers.
std::vector<float> to_floats(const WeightsTensor& tensor);

/// The tensor that a model needs: if `dtype` is f32 by `to_floats`, else as it lies in the file, which has
/// that type. Zero for batch norm's count of batches in files from before PyTorch had it (0.4.1). DataError,
/// with the nearest name, where the file lacks any other.
std::vector<float> needed_words(const WeightsFile& file, const std::string& name, DType dtype,
                                const Shape& shape);

}  // namespace lockstep::runtime
