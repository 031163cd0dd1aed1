#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/machine/session.h"
#include "runtime/output/predictions.h"
#include "runtime/run/evaluator.h"
#include "runtime/run/task.h"
#include "runtime/step/executor.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// The model of the options for samples like `spec`, with as many classes and tokens as the weights know, and
/// `samples` as its test set. Its note tells where their classes may have other numbers than the weights'.
TrainingTask task_for_weights(const Options& options, const WeightsFile& weights, data::SampleSpec spec,
                              data::DatasetPtr samples);

/// A model with given weights on every rank, without anything that training needs: what `trainer eval` and
/// `trainer predict` run.
class Inference {
 public:
  /// Called on every rank, after each batch of all ranks: the whole of it on rank 0, nothing elsewhere.
  using TakeOutputs = std::function<void(const PredictedBatch& batch)>;

  /// `states`: outputs, and the final states of a recurrent model.
  enum class Gives { scores, outputs, states };

  /// Collective. DataError when the weights are not the model's.
  Inference(const Options& options, Session& session, TrainingTask task, const WeightsFile& weights,
            Gives gives);

  /// Collective: each sample of the test set once, or as many as are wanted of it (`data::chosen_sample`).
  /// Nothing when a rank was asked to stop. `take`: where the inference gives outputs.
  std::optional<Evaluation> run(const StopRequest& stop_request, const TakeOutputs& take = {});

  /// Of the final states of a sample that are given, as model::InputSpec has them; rank 0: none are.
  Shape states_shape() const;

 private:
  std::vector<float> gather(std::int64_t batch, std::int64_t rows, const Operand& operand,
                            std::int64_t columns);
  void gather_outputs(std::int64_t batch, std::int64_t rows, const TakeOutputs& take);

  const Options options_;
  Session& session_;
  const TrainingTask task_;
  const std::int64_t batch_size_;
  const std::int64_t samples_;
  /// To which batches of padded sequences are cut: for scores alone, as outputs are of whole rows.
  const std::vector<std::int64_t> lengths_;
  std::vector<Plan> plans_;  ///< one, or one for each length
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace lockstep::runtime
