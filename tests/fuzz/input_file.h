#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

/// A file of that name with these bytes, over what it was before.
inline std::filesystem::path input_file(const std::string& name, std::string_view bytes) {
  static const TemporaryFolder folder;
  std::filesystem::create_directories((folder / name).parent_path());
  write_file(folder / name, std::string(bytes));
  return folder / name;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace lockstep::tests
