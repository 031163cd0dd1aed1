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

/// `folder` and all folders below it, in byte order of their paths. DataError where they nest without end.
std::vector<std::string> folders_below(const std::filesystem::path& folder);

/// Where a split's files are: a `root` with the folder `train` has the others in `val`, `validation` or
/// `test`; else every split is the whole. DataError when there is none of these.
std::filesystem::path split_folder(const std::filesystem::path& root, Split split);

}  // namespace lockstep::data
