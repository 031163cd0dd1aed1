#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/base/unique_fd.h"
#include "runtime/output/report.h"

namespace lockstep::runtime {

/// RUN/: config.ini, log.jsonl, summary.json, model.safetensors. Held by rank 0.
class RunFolder {
 public:
  /// The folder is there. A run that goes on after step `resumed_at` appends to log.jsonl, less the lines of
  /// later steps. DeviceError when nothing can be written.
  RunFolder(std::filesystem::path path, std::optional<std::int64_t> resumed_at);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path weights() const { return path_ / "model.safetensors"; }

  void write_config(const std::string& ini) const;
  void log_step(const Progress& progress) const;
  void log_evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& evaluation) const;
  void write_summary(const Summary& summary) const;
  /// Whether an earlier process came to the end and wrote so.
  bool is_finished() const;
  /// Of an earlier part of the run, which goes on now.
  void forget_summary() const;

 private:
  void append(const std::string& line) const;

  std::filesystem::path path_;
  UniqueFd log_;
};

}  // namespace lockstep::runtime
