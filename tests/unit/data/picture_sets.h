// Sets of pictures whose widths tell which they are.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/pictures/picture.h"
#include "tests/support/files.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"

namespace lockstep::data::testing {

inline std::string picture_of(int width) {
  return jpeg_of(formula_picture({width, 30}, 3).view());
}

/// A picture whose width tells which it is.
inline void put(const std::filesystem::path& path, int width) {
  std::filesystem::create_directories(path.parent_path());
  tests::write_file(path, picture_of(width));
}

inline std::vector<std::pair<int, std::int64_t>> widths_and_labels(const PictureSet& set) {
  std::vector<std::pair<int, std::int64_t>> all;
  for (std::int64_t i = 0; i < set.size(); ++i) all.emplace_back(set.open(i)->size().width, set.label(i));
  return all;
}

using All = std::vector<std::pair<int, std::int64_t>>;

}  // namespace lockstep::data::testing
