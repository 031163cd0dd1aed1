#include "runtime/run/task_names.h"

#include <fmt/format.h>

namespace lockstep::runtime {

KeptNames kept_names(const TrainingTask& task) {
  KeptNames names{.classes = task.class_names,
                  .tokens = task.token_names,
                  .tokenizer = task.tokenizer_fingerprint,
                  .tokenizer_rules = task.tokenizer_rules};
  if (task.input.num_classes == 0) names.values = task.input.target_shape;
  return names;
}

std::string source_of(const Options& options) {
  if (options.data_dir.empty()) return options.dataset;
  return fmt::format("{} ({})", options.dataset, options.data_dir.string());
}

Options recorded(const Options& options, const TrainingTask& task) {
  Options named = options;
  if (named.model.empty()) named.model = task.model.name;
  if (!task.dataset_name.empty()) named.dataset = task.dataset_name;
  return named;
}

}  // namespace lockstep::runtime
