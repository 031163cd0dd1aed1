#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

/// A temporary folder to which files are written.
class ScratchFolder : public TemporaryFolder {
 public:
  std::filesystem::path write(const std::filesystem::path& name, const std::string& text) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
    return path() / name;
  }

  std::filesystem::path write_program(const std::filesystem::path& name, const std::string& text) const {
    const auto file = write(name, text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
};

}  // namespace lockstep::tests
