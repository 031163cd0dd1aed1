#pragma once

#include <filesystem>
#include <string>

#include "tests/support/files.h"
#include "tests/unit/data/encoded.h"
#include "tests/unit/data/formula_picture.h"

namespace lockstep::data::testing {

/// JPEGs of two classes, of many sizes.
inline void write_picture_folder(const std::filesystem::path& root, int count) {
  for (int i = 0; i < count; ++i) {
    const std::filesystem::path folder = root / (i % 2 == 0 ? "even" : "odd");
    std::filesystem::create_directories(folder);
    const Picture picture = formula_picture({20 + 3 * (i % 24), 60 - i % 24}, 3);
    tests::write_file(folder / (std::to_string(100 + i) + ".jpg"), jpeg_of(picture.view()));
  }
}

}  // namespace lockstep::data::testing
