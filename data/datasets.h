#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "kernels/base/export.h"

namespace lockstep {
class Activity;
}

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
  Activity* activity = nullptr;      ///< is told what opening takes long
};

/// A data set by name.
struct DatasetEntry {
  std::string name;
  std::string what;  ///< one line for `trainer datasets`
  DatasetPtr (*open)(const DatasetOptions&, Split);
  /// What samples look like, known before any file is opened where the name tells (`trainer plan` needs no
  /// data).
  SampleSpec (*spec)(const DatasetOptions&);
};

LOCKSTEP_API const std::vector<DatasetEntry>& datasets();
LOCKSTEP_API std::vector<std::string> dataset_names(std::span<const DatasetEntry> among);

/// By its name, case, '-' and '_' ignored. UsageError with the nearest names.
LOCKSTEP_API const DatasetEntry& find_dataset(std::span<const DatasetEntry> among, const std::string& name);

/// Of `datasets()`: UsageError for an unknown name, DataError for files.
LOCKSTEP_API DatasetPtr open_dataset(const DatasetOptions& options, Split split);
LOCKSTEP_API SampleSpec dataset_spec(const DatasetOptions& options);

}  // namespace lockstep::data
