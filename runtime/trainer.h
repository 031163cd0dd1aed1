#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/batch_feed.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/resume.h"
#include "runtime/evaluator.h"
#include "runtime/executor.h"
#include "runtime/output/memory_usage.h"
#include "runtime/output/metrics.h"
#include "runtime/output/run_folder.h"
#include "runtime/output/screen.h"
#include "runtime/parameters.h"
#include "runtime/session.h"
#include "runtime/stop_request.h"
#include "runtime/task.h"

namespace lockstep::runtime {

/// One training run from plans to final weights. Every rank makes one with equal options.
class Trainer {
 public:
  Trainer(const Options& options, Session& session, TrainingTask task, StopRequest& stop_request);

  /// Trains, evaluates, writes RUN/ (rank 0). Returns what summary.json says.
  Summary run();

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// RUN/ of this run, the same on all ranks.
  const std::filesystem::path& folder() const { return place_.run; }

 private:
  struct Counters {
    std::int64_t step = 0;
    std::int64_t epoch = 0;
    std::int64_t next_epoch = 0;  ///< of the next batch
    std::int64_t next_batch = 0;  ///< its index there
    std::int64_t samples = 0;     ///< over all ranks
    double loss = 0;              ///< of the last step, over all ranks
    bool not_finite = false;
    bool stopped = false;
  };

  void start_watch();
  void settle_batch_size();
  void find_checkpoint();
  std::vector<PlanRequest> plan_requests() const;
  void make_plans();
  AlgorithmChoices choose_algorithms();
  void set_up_parameters();
  void open_folder();
  void tell_of_resumption();
  std::int64_t total_steps() const;

  void train(data::Loader& loader);
  StepTiming run_step(const DeviceBatch& batch, std::int64_t next_samples);
  void first_step_done();
  void report(const DeviceBatch& batch);
  bool ends_evaluated_epoch() const;
  void evaluate_now(std::size_t slot);
  void save_checkpoint();
  std::size_t staged_checkpoint_bytes() const;
  void require_finite() const;
  Summary finish();
  void write_results(const Summary& summary, const std::vector<NamedTensor>& weights);
  bool made_a_step() const { return startup_ms_ > 0; }  ///< this process, not one before a restart

  const Options options_;
  Session& session_;
  TrainingTask task_;
  MemoryWatch memory_watch_;
  Screen screen_;
  StopRequest& stop_request_;
  std::optional<RunFolder> folder_;

  RunPlace place_;
  std::optional<ResumePoint> resumed_;
  Settings settings_;
  Settings machine_;
  RunDecisions decisions_;
  std::vector<Plan> plans_;
  std::int64_t batch_size_ = 0;      ///< of this rank
  std::int64_t epoch_samples_ = 0;   ///< of this rank
  std::size_t evaluation_plan_ = 0;  ///< the last of plans_, if there is a test set
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Checkpointer> checkpointer_;

  RunMetrics metrics_;
  double startup_ms_ = 0;
  Counters counters_;
  std::int64_t evaluated_at_step_ = -1;
  double global_targets_ = 0;  ///< of the step to come, over all ranks
  std::optional<Evaluation> evaluation_;
};

}  // namespace lockstep::runtime
