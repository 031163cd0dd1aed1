#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/datasets.h"

namespace lockstep::data {

/// Names of folders, or of other files, in byte order; hidden ones are passed over, links followed. DataError
/// when the folder cannot be read.
std::vector<std::string> folders_in(const std::filesystem::path& folder);
std::vector<std::string> files_in(const std::filesystem::path& folder);

/// Names of folders that are a class each. DataError for one that is no UTF-8: weights could not keep it.
std::vector<std::string> class_folders_in(const std::filesystem::path& folder);

/// `folder` and all folders below it, in byte order of their paths. DataError where they nest without end.
std::vector<std::string> folders_below(const std::filesystem::path& folder);

/// Folders of the splits; empty: it is not there.
struct SplitFolders {
  std::filesystem::path train;
  std::filesystem::path test;

  /// Whose folders, or archives, tell the classes.
  const std::filesystem::path& classes() const { return train.empty() ? test : train; }
};

/// `train`, and the first of `val`, `valid`, `validation` and `test` that is there, or one of these alone,
/// or beside archives for training; else both are `root`, as where a class is called "train".
SplitFolders split_folders(const std::filesystem::path& root);

/// One of them. DataError when it is not there.
std::filesystem::path split_folder(const std::filesystem::path& root, Split split);

/// Files of a split each, in byte order.
struct SplitFiles {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> test;       ///< empty: the last tenth of each of `train`
  std::vector<std::filesystem::path> set_aside;  ///< neither trained on nor evaluated
};

/// Those of options.data_dir. Of a folder, whose names end in `extension` (".bin") and have "train", or else
/// "val" ("valid", "validation"), or else "test" in them, whole words before parts of words; "test" is set
/// aside where there is "val". A file is the training set, or with options.data_are_new what is evaluated.
/// DataError when a folder has none for training.
SplitFiles split_files(const DatasetOptions& options, const std::string& extension);

/// Tells that a part of the training files is evaluated; empty where others are.
std::string note_on(const SplitFiles& files);

/// Tells that `split_folder` gives `root` for every split; empty where it does not.
std::string note_on_splits(const std::filesystem::path& root);

}  // namespace lockstep::data
