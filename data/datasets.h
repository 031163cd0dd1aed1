#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pictures/picture.h"
#include "kernels/base/export.h"

namespace lockstep {
class Activity;
}

namespace lockstep::data {

class OpenedTexts;
class ShardIndexes;

enum class Split { train, test };

/// What `--dataset` and its options say. Fields that a data set has no use for are ignored by it.
struct DatasetOptions {
  std::string name{};
  std::filesystem::path data_dir{};  ///< empty: where the distribution's package or a download puts it
  std::int64_t samples = 10000;      ///< synthetic
  Shape image_shape{};               ///< synthetic: shape of an input
  std::int64_t num_classes = 10;     ///< synthetic (0: f32 targets of `target_shape`), shards, tensors
  Shape target_shape{};              ///< synthetic regression
  std::int64_t seq_len = 0;       ///< tokens of a sample, as the model wants or --seq-len says; 0: no tokens
  std::int64_t vocab_size = 0;    ///< the same of the vocabulary
  bool vocab_size_given = false;  ///< a user has said it: no data set's own replaces it
  std::string vocab_size_file{};  ///< or this file of a model's weights has
  bool per_token = false;         ///< the model wants a class for each token
  bool classes_are_tokens = false;  ///< the model predicts tokens: its classes are the vocabulary
  Shape states_shape{};             ///< that the model can start from (SampleSpec); rank 0: from none
  std::uint64_t seed = 0;           ///< synthetic, and of random transforms
  std::string transform{};          ///< pictures: what is done to each (transforms.h)
  std::string eval_transform{};     ///< the same for Split::test
  bool data_are_new = false;        ///< to weights that are scored: of a lone file of text all is evaluated
  bool skip_corrupt = false;        ///< pictures: the next good one in the place of one that cannot be read
  bool download = false;            ///< published sets: fetch the files that are missing
  Activity* activity = nullptr;     ///< is told what opening takes long
  std::shared_ptr<ShardIndexes> shard_indexes{};  ///< shards: shared by calls with copies of these options
  std::string windows{};                          ///< text and tokens: how samples are cut (`WindowRule`)
  std::string token_dtype{};  ///< tokens: of files without a header, "uint16" or "uint32"; empty: uint16
  std::filesystem::path tokenizer{};       ///< of text; empty: its characters are the vocabulary
  std::filesystem::path target_file{};     ///< parallel text: the translation of `data_dir`
  std::vector<std::string> class_names{};  ///< of labelled text and of folders of pictures, as weights know
                                           ///< them; empty: the data's own
  std::vector<std::string> token_names{};  ///< the same of characters of text
  std::string unknown_character_advice{};  ///< the end of the error on a character that is none of these
  std::shared_ptr<OpenedTexts> texts{};    ///< text: shared by calls with copies of these options
};

/// Lists of transforms for training and evaluation (transforms.h).
struct TransformLists {
  std::string train;
  std::string eval;
};

/// A data set by name.
struct DatasetEntry {
  std::string name;
  std::string what;  ///< one line for `trainer datasets`
  DatasetPtr (*open)(const DatasetOptions&, Split);
  /// What samples look like. Of files it reads only what tells classes, vocabulary or shapes, and where the
  /// name and the options tell them, none: `trainer plan` needs no samples.
  SampleSpec (*spec)(const DatasetOptions&);
  /// Of pictures: what is done to them when nothing else is asked for, which `open` then gets.
  std::optional<TransformLists> transforms{};
  /// Names of its classes, by number, without reading samples; empty where nothing tells them. Null: it has
  /// none.
  std::vector<std::string> (*class_names)(const DatasetOptions&) = nullptr;
  /// What its pictures are; none where samples are made of no pictures.
  std::optional<PictureKind> pictures{};
  bool can_download = false;  ///< heeds DatasetOptions::download
  /// What a user should know of where the samples that are evaluated come from; null, or empty: nothing.
  std::string (*note)(const DatasetOptions&) = nullptr;
  /// Names of its tokens, by number, where they are characters; null, or empty: they are not.
  std::vector<std::string> (*token_names)(const DatasetOptions&) = nullptr;
  /// Classes have the order of their names, unless DatasetOptions::class_names has their numbers: one that
  /// samples lack changes the numbers of those behind it.
  bool numbers_classes_by_name = false;
};

LOCKSTEP_API const std::vector<DatasetEntry>& datasets();
/// Which data set a path given in the place of a name is: "shards" for a .tar file and a folder of them, else
/// "image-folder" for a folder; none for a name, also where a folder of that name is. Without `bare_folders`
/// a folder has a slash in its path, as what looks like one here may be a plugin's name.
std::optional<std::string> dataset_at(const std::string& path, bool bare_folders = true);
LOCKSTEP_API std::vector<std::string> dataset_names(std::span<const DatasetEntry> among);

/// By its name, case, '-' and '_' ignored. UsageError with the nearest names.
LOCKSTEP_API const DatasetEntry& find_dataset(std::span<const DatasetEntry> among, const std::string& name);

/// Of `datasets()`: UsageError for an unknown name, DataError for files.
LOCKSTEP_API DatasetPtr open_dataset(const DatasetOptions& options, Split split);
LOCKSTEP_API SampleSpec dataset_spec(const DatasetOptions& options);

}  // namespace lockstep::data
