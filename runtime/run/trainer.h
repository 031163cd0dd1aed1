#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/resume.h"
#include "runtime/checkpoint/run_access.h"
#include "runtime/machine/session.h"
#include "runtime/output/console.h"
#include "runtime/output/gpu_log.h"
#include "runtime/output/metrics.h"
#include "runtime/output/run_files.h"
#include "runtime/run/evaluator.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/stop_request.h"
#include "runtime/run/task.h"
#include "runtime/run/training_progress.h"
#include "runtime/step/cuda_graph_policy.h"
#include "runtime/step/executor.h"
#include "runtime/step/step_pipeline.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {

/// One training run from plans to final weights. Every rank makes one with equal options and data:
/// `require_same_options` has compared the ones, the constructor compares the others before anything is made.
class Trainer {
 public:
  Trainer(const Options& options, Session& session, TrainingTask task, StopRequest& stop_request);

  /// Trains, evaluates, writes RUN/ (rank 0). Returns the contents of summary.json.
  Summary run();

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// RUN/ of this run, the same on all ranks.
  const std::filesystem::path& folder() const { return run_directory_.run; }

 private:
  void agree_on_settings();
  void find_checkpoint();
  void agree_on_plans();
  void make_replica();
  void set_up_parameters();
  void open_files();
  void print_resumption();
  void print_changed_rate();

  bool evaluates_first() const;
  void train(data::Loader& loader);
  kernels::StepInput step_input(std::int64_t step, const MicroBatch& micro_batch, std::int64_t next_targets);
  bool pauses_after(std::int64_t step, const data::BatchInfo& batch) const;
  void evaluate_and_save_after(std::int64_t step, std::size_t free_slot);
  void step_done(const FinishedStep& step, std::int64_t data_wait_ns);
  void agree_on_cuda_graphs(const StepTiming& timing);
  void first_step_done();
  void report(const data::BatchInfo& batch);
  Progress progress_for(RunMetrics::Reader reader, const data::BatchInfo& batch);
  void evaluate_now(std::size_t slot);
  void save_checkpoint(Afterwards afterwards);
  void require_finite() const;
  void require_scale() const;
  Summary finish();
  void free_training_memory();
  void write_results(const Summary& summary, const std::vector<NamedTensor>& weights);
  ParameterIO replica() const { return {*session_.device, plans_.full_batch(), *memory_}; }
  bool scales_gradients() const { return plans_.constraints.compute_dtype == DType::f16; }
  bool made_a_step() const { return startup_ms_ > 0; }  ///< this process, not one before a restart

  TrainingTask task_;
  const Options options_;
  Session& session_;
  MemoryWatch memory_watch_;
  Console console_;
  StopRequest& stop_request_;
  std::optional<RunFiles> files_;  ///< of rank 0

  RunDirectory run_directory_;
  std::optional<NewRunFolder> new_folder_;  ///< until the set-up is done
  std::optional<RunLock> run_lock_;
  std::optional<ResumePoint> resumed_;
  Settings settings_;
  Settings machine_;
  Batching batching_;
  RunPlans plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
  CudaGraphPolicy cuda_graph_policy_;
  std::unique_ptr<Checkpointer> checkpointer_;

  RunMetrics metrics_;
  double startup_ms_ = 0;
  TrainingProgress progress_;
  std::optional<Evaluation> evaluation_;
  std::optional<GpuLog> gpu_log_;  ///< of rank 0; its thread ends before RUN/ is given free
};

}  // namespace lockstep::runtime
