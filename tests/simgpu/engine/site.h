#pragma once

#include <string>

namespace [[gnu::visibility("default")]] simgpu {

/// Where in a kernel's source something stands. The defaults are those of the line that calls.
struct Site {
  const char* file;
  int line;

  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  /// File names are compared by address first: one call always hands over the same literal.
  bool operator==(const Site& other) const {
    return line == other.line && (file == other.file || same_file(other));
  }

  std::string text() const { return std::string(file) + ":" + std::to_string(line); }

 private:
  bool same_file(const Site& other) const;
};

}  // namespace simgpu
