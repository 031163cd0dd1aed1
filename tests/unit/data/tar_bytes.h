#pragma once

#include <string>

#include <fmt/format.h>

namespace lockstep::tests {

/// A file in a tar archive as POSIX describes it: a header of 512 bytes and the contents, padded.
inline std::string tar_member(const std::string& name, const std::string& contents, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, fmt::format("{:011o}", contents.size()));
  put(148, std::string(8, ' '));
  header[156] = type;
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + '\0');
  return header + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace lockstep::tests
