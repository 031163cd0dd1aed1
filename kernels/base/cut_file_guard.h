#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep {

/// Ends the process with one line that names the file, and exit code 3, when `bytes`, a mapping of `file`, is
/// read behind the end that the file has been cut to meanwhile: the kernel answers with SIGBUS, which alone
/// would name nothing. Where CutFileReports are wanted, the process has a few seconds to end by itself.
class CutFileGuard {
 public:
  CutFileGuard() = default;
  CutFileGuard(std::span<const std::byte> bytes, const std::filesystem::path& file);

 private:
  std::shared_ptr<const void> entry_;
};

/// While it lasts, a thread of this process asks for `cut_file_report`, and ends the process with it: a
/// signal handler can tell neither peers nor a log.
class CutFileReports {
 public:
  CutFileReports();
  ~CutFileReports();
  CutFileReports(const CutFileReports&) = delete;
  CutFileReports& operator=(const CutFileReports&) = delete;
};

/// What a thread, which waits for the end of the process, has met: the file, and what to do.
std::optional<std::string> cut_file_report();

}  // namespace lockstep
