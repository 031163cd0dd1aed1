#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::runtime {

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
  std::int64_t samples = 0;
  bool classes = true;  ///< the targets are classes, so accuracy is defined
  std::optional<double>
      top5{};  ///< share of samples whose target is among the five greatest; of six classes or more
};

/// Progress of a run, for the console and log.jsonl.
struct Progress {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;  ///< 0: unknown
  std::int64_t epoch = 0;        ///< counted from 0
  std::int64_t epochs = 0;       ///< 0: no limit
  double loss = 0;
  std::optional<double> learning_rate;
  std::optional<double> gradient_norm;  ///< before clipping
  std::optional<double> grad_scale;     ///< GradScaler's, with fp16
  double samples_per_s = 0;
  double step_ms = 0;
  double exposed_comm_ms = 0;
  double data_wait_ms = 0;
  double seconds_left = 0;
};

/// The results of a run; written as summary.json.
struct Summary {
  int world_size = 1;
  std::string device;
  std::string instruction_set;
  int threads = 1;
  std::string backend;
  std::string model;
  std::string dataset;
  std::string data_device = "host";  ///< that keeps the samples
  std::string version;
  std::string amp = "off";
  std::string conv_precision;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double final_loss = 0;
  std::optional<std::int64_t> applied_updates;  ///< with fp16: steps that were not skipped
  std::optional<double> grad_scale;             ///< GradScaler's at the end
  std::optional<Evaluation> eval;
  double samples_per_s = 0;
  double step_ms_median = 0;
  double step_ms_p95 = 0;
  double comm_ms = 0;
  double exposed_comm_ms = 0;
  double skew_ms = 0;
  double data_wait_ms = 0;
  double startup_ms = 0;
  std::int64_t peak_memory_bytes = 0;
  std::int64_t plan_bytes = 0;
  std::int64_t device_bytes_used = 0;  ///< at the end, by the driver's count
  std::int64_t pinned_bytes = 0;       ///< on the host, of batches that are loaded ahead
  std::string weights_sha256;
  bool stopped = false;  ///< by a signal, before its end
};

}  // namespace lockstep::runtime
