#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace lockstep {

/// Ends the process with one line that names the file, and exit code 3, when `bytes`, a mapping of `file`, is
/// read behind the end that the file has been cut to meanwhile: the kernel answers with SIGBUS, which alone
/// would name nothing.
class CutFileGuard {
 public:
  CutFileGuard() = default;
  CutFileGuard(std::span<const std::byte> bytes, const std::filesystem::path& file);

 private:
  std::shared_ptr<const void> entry_;
};

}  // namespace lockstep
