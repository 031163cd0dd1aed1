#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/folders.h"
#include "data/text/sample_lines.h"

namespace lockstep::data {

struct Text {
  std::filesystem::path path;
  std::size_t offset;  ///< in the file
  std::string text;
  std::string label;
  std::int64_t line = 0;  ///< in the file
};

/// Of a split.
struct SplitTexts {
  std::vector<Text> texts;
  SampleLines lines;  ///< of files of lines
};

struct Texts {
  std::vector<std::string> labels;
  SplitTexts train;
  SplitTexts test;
};

/// Of files of lines, label, tab and text each. DataError names the place of a line that is none.
Texts read_lines(const SplitFiles& files);

/// Of folders by class, with .txt files of a text each.
Texts read_folders(const std::filesystem::path& root);

/// Whether such files, rather than folders by class, are at `place`.
bool has_lines(const std::filesystem::path& place);

}  // namespace lockstep::data
