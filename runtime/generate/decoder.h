#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/step/executor.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

struct DecoderOptions {
  std::int64_t rows = 1;      ///< sequences at a time
  std::int64_t capacity = 1;  ///< tokens of a sequence that the model can look at
  std::int64_t piece = 64;    ///< tokens of a row that are taken in at once
  bool branches = false;      ///< `branch` will be called
};

/// Sequences of tokens, one a row, that grow: what the model needs of earlier tokens lies in caches, so that
/// a new token costs the same wherever it stands. Two plans, made once: one takes in a token a row and gives
/// the logits of the next; the other many tokens a row, or, of a model with an encoder, the sources behind
/// which the sequences grow. On a CPU the bits of a row do not depend on other rows.
class Decoder {
 public:
  /// `constraints` are for all plans; the arenas and layouts are laid out here.
  Decoder(kernels::Device& device, comm::Communicator& communicator, const model::Model& model,
          const model::InputSpec& input, const DecoderOptions& options, PlanConstraints constraints);

  /// The plan that laid out the weights, and its memory: to load them.
  const Plan& plan() const { return plans_.front(); }
  ReplicaMemory& memory() { return *memory_; }
  Executor& executor() { return *executor_; }

  const DecoderOptions& options() const { return options_; }
  /// Tokens that a row holds.
  std::int64_t length(std::int64_t row) const { return rows_[index(row)].length; }

  /// The row begins anew, with nothing.
  void clear(std::int64_t row);
  /// The same, as the target of `source`, of at most `InputSpec::source_length` tokens.
  void begin_target(std::int64_t row, std::span<const std::int64_t> source);
  /// Row i goes on from what row parents[i] holds, by row; nothing may wait to be taken in. Copies nothing of
  /// the caches: each entry stays where it was written.
  void branch(std::span<const std::int64_t> parents);
  /// To be taken in by the next `run`, behind those that the row holds, `capacity` in all.
  void append(std::int64_t row, std::span<const std::int64_t> tokens);
  /// Takes in all that was appended. Allocates nothing but in its first call.
  void run();
  /// What follows the last token of a row that the last `run` extended.
  std::span<const float> logits(std::int64_t row) const;

 private:
  struct Row {
    std::int64_t length = 0;
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> waiting;  ///< tokens, from `taken` on
    std::size_t taken = 0;

    std::int64_t left() const { return static_cast<std::int64_t>(waiting.size() - taken); }
  };
  static std::size_t index(std::int64_t row) { return static_cast<std::size_t>(row); }

  /// Runs `plan` on up to its length of the tokens that wait in each row, but for `keep` of them.
  void take_in(const Plan& plan, std::int64_t keep);

  const DecoderOptions options_;
  kernels::Device& device_;
  std::vector<Plan> plans_;  ///< of one token, of many or of sources
  const std::int64_t source_length_;
  bool sources_wait_ = false;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
  std::vector<Row> rows_;
  std::unique_ptr<kernels::Memory> tokens_;  ///< on the host, as the next three
  std::unique_ptr<kernels::Memory> positions_;
  std::unique_ptr<kernels::Memory> logits_;
  std::unique_ptr<kernels::Memory> cache_rows_;  ///< null without branches
  std::vector<std::int64_t> parent_rows_;        ///< what `cache_rows_` held before a branch
  std::vector<std::int64_t> parent_lengths_;     ///< of the rows that rows go on from
  std::int64_t columns_ = 0;
};

}  // namespace lockstep::runtime
