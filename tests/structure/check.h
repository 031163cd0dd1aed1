#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::structure {

/// A file of ours: its path from the repository root and its text.
struct SourceFile {
  std::string path;
  std::string text;
};

/// Every C++ file, script and CMake file below the folders of the house.
std::vector<SourceFile> read_sources(const std::filesystem::path& root);

/// What breaks the rules (rules.h) in one file: "path:line: what", one each.
std::vector<std::string> violations(const SourceFile& file);

/// Top-level folders that lack a README.md.
std::vector<std::string> folders_without_readme(const std::filesystem::path& root);

}  // namespace lockstep::structure
