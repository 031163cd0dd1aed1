#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "kernels/device.h"
#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Settings that checkpoints of earlier versions lack: these go on with any.
inline constexpr const char* bytes_setting = "bytes of the training set";
inline constexpr const char* files_setting = "files of the training set";
inline constexpr const char* classes_setting = "names of the classes";
inline constexpr const char* tokens_setting = "names of the tokens";
inline constexpr const char* tokenizer_setting = "tokens of the tokenizer";

/// The state of a run between two steps, independent of the ranks: state.json. With the tensors it suffices
/// to resume to the bit, since random numbers come from counters (seed, epoch, step) and not from a
/// generator's state.
struct RunState {
  std::int64_t step = 0;   ///< done
  std::int64_t epoch = 0;  ///< of the next batch, counted from 0
  /// Done in that epoch, over all ranks: the first so many of its order (`sampler --ranks 1` prints it).
  std::int64_t epoch_samples = 0;
  /// Of these, done by another number of ranks, before the rest of the epoch was dealt to the present ones.
  std::int64_t dealt_from = 0;
  std::int64_t samples = 0;          ///< done in all epochs, over all ranks
  std::int64_t applied_updates = 0;  ///< of the steps; fewer if some were skipped
  GradScalerState grad_scaler;       ///< of fp16 alone
  std::int64_t schedule_steps = 0;   ///< of the learning rate, on these ranks; 0: not told
  double loss = 0;                   ///< of the last step
  std::int64_t evaluated_at_step = -1;
  double time = 0;  ///< seconds since 1970, by rank 0's clock
  Settings settings;
  Settings machine;
  SelectedAlgorithms algorithms;
  std::optional<bool> replayed;  ///< what `--cuda-graph auto` came to: steps are replayed as graphs, or not
};

/// The file is whole, but another version of Lockstep wrote it.
struct FormatError : DataError {
  using DataError::DataError;
};

std::string to_json(const RunState& state);
/// DataError names the file, FormatError also its format and the version that wrote it.
RunState read_run_state(const std::filesystem::path& file);

/// The settings that a run's results depend on: ranks, data, and the options that the table marks so. A
/// run resumes only with equal settings.
Settings settings_of(const Options& options, const comm::World& world, std::int64_t training_samples,
                     const std::string& data_fingerprint);

/// What the last bits of results depend on beside the settings. `signature`: of the exchange.
Settings machine_of(const kernels::Device& device, std::string_view backend, const std::string& signature);

/// How many ranks made a checkpoint with these settings.
int ranks_in(const Settings& settings);

/// UsageError names each setting that differs, with the checkpoint's value and this run's. The number of
/// ranks may, and then the batch of each, too. `asked_for`: --resume named it, not its RUN's newest was
/// taken.
void require_same_settings(const std::filesystem::path& checkpoint, const Settings& saved,
                           const Settings& now, bool asked_for = false);

/// The settings that differ, as "--lr 0.1 (now 0.2)"; empty if none does.
std::string differences(const Settings& saved, const Settings& now);

/// The differences between a checkpoint's settings and machine and those of now: a run of now would not come
/// to the same bits. Empty if it would.
std::string course_differences(const RunState& saved, const Settings& settings, const Settings& machine);

}  // namespace lockstep::runtime
