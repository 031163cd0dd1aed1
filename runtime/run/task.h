#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "data/dataset.h"
#include "data/text/tokenizer.h"
#include "kernels/base/export.h"
#include "model/model.h"
#include "runtime/options/options.h"

namespace lockstep::data {
class PictureFiles;
}

namespace lockstep::runtime {

struct KeptNames;
class WeightsFile;

/// A model and its data. A user's own program fills it in; `trainer` does so from its options.
struct TrainingTask {
  model::Model model;
  model::InputSpec input;
  data::DatasetPtr train_set;
  data::DatasetPtr test_set;                  ///< may be null: nothing is evaluated
  std::string dataset_name{};                 ///< of a program's own data, for records; trainer has --dataset
  std::vector<std::string> class_names{};     ///< by number, kept with the weights; may be empty
  std::vector<std::string> token_names{};     ///< the same of its tokens, where they are characters
  std::filesystem::path tokenizer{};          ///< of its text, else; config.ini keeps it; may be empty
  std::string tokenizer_fingerprint{};        ///< data::fingerprint_of it; empty without one
  data::TokenizerRules tokenizer_rules{};     ///< its rules
  std::optional<std::int64_t> end_of_text{};  ///< data::end_of_text of it, if it has such a token
  std::string note{};                         ///< on the test set, for the user; may be empty
  std::string data_fingerprint{};             ///< of the training set, which `trainer` finds out
  std::string content_digest{};               ///< the same: data::content_digest_of
  std::string file_digest{};                  ///< the same: data::file_digest_of
  std::vector<std::string> plugins{};  ///< which were loaded, a line each: all ranks must have the same
  /// Of the samples, where they are pictures: data::SampleSpec::pictures.
  std::optional<kernels::PicturesToFloats> pictures{};
};

/// UsageError when the samples have another dtype or size than the model's inputs and targets, when there are
/// none to train on, or fewer than --eval-samples, and when their number or that of their classes is none.
void require_fitting(const TrainingTask& task, const Options& options);

/// The model of the zoo and the data set that the options name.
LOCKSTEP_API TrainingTask make_task(const Options& options);

/// The same in two parts: this one knows the names and what they want, and what it gives opens the files,
/// and tells `activity` what takes long.
std::function<TrainingTask(Activity* activity)> prepare_task(const Options& options);

/// The samples that `trainer eval` and `predict` score, and what their classes are called: by the weights,
/// else by the data set.
struct TestSet {
  data::DatasetPtr samples;
  std::vector<std::string> class_names;
};

/// The test set, without the training set. `weights` tell what classes are called, and which tokens text has,
/// so that both have the numbers that the model was trained with.
TestSet open_test_set(const Options& options, const WeightsFile& weights, Activity* activity);

/// Whether the options' data set gives its classes the order of their names, where weights do not tell them.
bool numbers_classes_by_name(const Options& options);

/// The model of the options for samples like these; the data sets are null.
TrainingTask make_task_for(const Options& options, const data::SampleSpec& spec);

/// What the model of the options takes where data can have any shape.
model::InputSpec wanted_input(const Options& options);

/// The states from which it can start, as model::InputSpec has them; rank 0: none.
Shape wanted_states(const Options& options);

/// Picture files as samples like those of the options' data set. `targets`: as `data::open_inputs` has them.
/// UsageError when it is no set of pictures.
std::shared_ptr<const data::PictureFiles> open_pictures(const Options& options,
                                                        std::vector<std::string> files,
                                                        const data::SampleSpec& targets);

/// What the options' data set calls its classes, and its tokens where they are characters.
KeptNames names_of_data(const Options& options);

/// The same for `trainer plan`, which needs no samples: of files it reads only what tells classes, vocabulary
/// or shapes. The data sets are null.
TrainingTask make_task_without_data(const Options& options);

}  // namespace lockstep::runtime
