#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

enum class Split { train, test };

/// What `--dataset` and its options say. Fields that a data set has no use for are ignored by it.
struct DatasetOptions {
  std::string name{};                ///< fashion-mnist, mnist, synthetic, tensors
  std::filesystem::path data_dir{};  ///< empty: where the distribution's package puts it
  std::int64_t samples = 10000;      ///< synthetic
  Shape image_shape{};               ///< synthetic: shape of an input
  std::int64_t num_classes = 10;     ///< synthetic: 0 gives f32 targets of `target_shape`
  Shape target_shape{};              ///< synthetic regression
  std::uint64_t seed = 0;            ///< synthetic
};

/// Names ignore case, '-' and '_'. UsageError for an unknown one (with the nearest), DataError for files.
DatasetPtr open_dataset(const DatasetOptions& options, Split split);

/// Names and one line each, for `trainer datasets`.
struct DatasetInfo {
  std::string name;
  std::string what;
};
std::vector<DatasetInfo> list_datasets();
std::vector<std::string> dataset_names();

/// What samples look like, known before any file is opened where the name tells (`trainer plan` needs no
/// data).
SampleSpec dataset_spec(const DatasetOptions& options);

}  // namespace lockstep::data
