#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "kernels/base/json.h"
#include "kernels/base/nvml.h"
#include "kernels/base/unique_fd.h"
#include "runtime/output/report.h"

namespace lockstep::runtime {

/// What a run has done when it opens log.jsonl, in the same RUN/; nothing if it is new there.
struct LoggedPart {
  std::int64_t step = 0;
  bool evaluates = false;  ///< and logs that, before any further step
};

/// The files of a run in RUN/: config.ini, log.jsonl, summary.json, model.safetensors. Rank 0 writes them.
class RunFiles {
 public:
  /// The folder exists. Lines of log.jsonl that `part` does not make are removed: of later steps, which come
  /// again, or of another run. DeviceError when the file cannot be written.
  RunFiles(std::filesystem::path path, const LoggedPart& part);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "log.jsonl"; }
  std::filesystem::path weights() const { return path_ / "model.safetensors"; }

  void write_config(const std::string& ini) const;
  void log_step(const Progress& progress) const;
  void log_evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& evaluation) const;
  /// By rank. From any thread.
  void log_gpus(std::int64_t step, const std::map<int, GpuReadings>& gpus) const;
  void write_summary(const Summary& summary) const;
  /// Removes summary.json of an earlier part of the run.
  void remove_summary() const;

 private:
  void append(const std::string& line) const;

  std::filesystem::path path_;
  UniqueFd log_;
};

/// "loss", "samples" and, of a classifier, "accuracy" and, of six classes or more, "top5".
Json to_json(const Evaluation& evaluation);
std::string to_json(const Summary& summary);

}  // namespace lockstep::runtime
