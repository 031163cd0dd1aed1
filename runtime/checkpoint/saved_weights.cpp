#include "runtime/checkpoint/saved_weights.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/options/settings.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> config_in(const std::optional<fs::path>& run) {
  if (!run || !fs::exists(status_at(*run / "config.ini"))) return std::nullopt;
  return *run / "config.ini";
}

SavedWeights of_checkpoint(const fs::path& checkpoint) {
  if (const std::string damage = damage_of(checkpoint); !damage.empty()) throw DataError(damage);
  return {.weights = checkpoint / "model.safetensors", .config = config_in(run_of(fs::absolute(checkpoint)))};
}

std::optional<fs::path> newest_whole_checkpoint(const fs::path& run) {
  const CheckpointDirectory directory(run / "checkpoints");
  for (const std::int64_t step : directory.steps()) {
    const std::string damage = damage_of(directory.path_of(step));
    if (damage.empty()) return directory.path_of(step);
    log::warn("a damaged checkpoint is passed over: {}", damage);
  }
  return std::nullopt;
}

/// Final weights are those of summary.json: while a run goes on, it has no such file.
SavedWeights of_folder(const fs::path& folder) {
  const std::optional<fs::path> config = config_in(folder);
  const bool final = fs::exists(status_at(folder / "summary.json")) && weights_in(folder);
  if (!final) {
    if (const auto checkpoint = newest_whole_checkpoint(folder))
      return {*checkpoint / "model.safetensors", config};
  }
  if (weights_in(folder)) return {folder, config};
  throw DataError(fmt::format(
      "{}: holds no weights: neither a whole checkpoint, nor {}, {}, {} or {}; name a run, a checkpoint or a "
      "file",
      folder.string(), weights_file_name, shard_index_file, torch_weights_file_name, torch_shard_index_file));
}

}  // namespace

SavedWeights find_saved_weights(const fs::path& named) {
  fs::path path = named.has_filename() ? named : named.parent_path();
  const fs::file_status status = status_at(path);
  if (!fs::exists(status)) {
    throw DataError(fmt::format("{}: no such file or folder; name a run, a checkpoint or a file of weights",
                                path.string()));
  }
  if (!fs::is_directory(status)) return {.weights = path, .config = std::nullopt};
  if (path.filename() == "latest") path = fs::weakly_canonical(path);
  if (fs::exists(status_at(path / "state.json"))) return of_checkpoint(path);
  // What is typed in RUN/checkpoints, or in a checkpoint, need not name it.
  const fs::path whole = (fs::absolute(path) / "").lexically_normal().parent_path();
  if (whole.filename() == "checkpoints" && !weights_in(path)) return of_folder(whole.parent_path());
  return of_folder(path);
}

fs::path first_weights(const Options& options) {
  std::error_code ignored;
  if (options.init_from.empty() || fs::exists(options.init_from, ignored)) return options.init_from;
  const fs::path run =
      names_a_path(options.resume) ? run_of(options.resume).value_or(fs::path()) : options.run_dir;
  return !run.empty() && holds_a_run(run) ? run : fs::path();
}

fs::path tokenizer_of(const fs::path& weights, const std::optional<fs::path>& config) {
  std::error_code ignored;
  for (const TypedSetting& setting : config ? read_config_file(config->string()) : TypedSettings()) {
    if (setting.name != "tokenizer") continue;
    if (setting.text == "characters" || fs::exists(setting.text, ignored)) return setting.text;
    throw DataError(fmt::format("{}: {}, the tokenizer of these weights, is gone; give --tokenizer PATH",
                                config->string(), setting.text));
  }
  fs::path folder = fs::is_directory(weights, ignored) ? weights : weights.parent_path();
  if (folder.empty()) folder = ".";
  const auto has = [&](const char* file) { return fs::exists(folder / file, ignored); };
  return has("tokenizer.json") || (has("vocab.json") && has("merges.txt")) ? folder : fs::path();
}

WeightsFile open_weights(const SavedWeights& saved, const std::string& model) {
  WeightsFile file(saved.weights);
  if (saved.config) return file;
  file.drop_wrappers();
  use_model_names(file, model);
  return file;
}

}  // namespace lockstep::runtime
