#pragma once

#include <cstdint>
#include <string_view>

#include "data/dataset.h"
#include "data/datasets.h"
#include "model/model.h"
#include "model/zoo/zoo.h"
#include "runtime/options/options.h"

/// What the options, the model and the data set say of the same samples. UsageError where two contradict.
namespace lockstep::runtime {

bool wants_tokens(const model::InputSpec& wants);

/// Whether it learns a class, or a value, for each token or step of a sequence.
bool targets_each_token(const model::InputSpec& wants);

/// The file of weights, or beside them, that told the vocabulary's size which nobody typed; empty: none.
std::string vocabulary_file(const Options& options);

/// That of the model's argument or of --vocab-size; 0 where a user says neither.
std::int64_t given_vocabulary(const Options& options, const model::InputSpec& wants);

/// Whether the model's classes are its tokens, and nobody says another number.
bool predicts_tokens(const Options& options, const model::InputSpec& wants);

/// Options of tokens for a model of tokens, those of pictures for others, and documents side by side for one
/// that keeps them apart.
void require_known_kind(const Options& options, const model::InputSpec& wants, const model::ZooEntry& model);

/// A built-in model of tokens on a built-in set of pictures, as it is meant where no --dataset is given:
/// before anyone looks for its files. The file's name tells which data set was forgotten.
void require_no_pictures(const Options& options, const data::DatasetEntry& dataset);

/// Classes are counted by the data set where it has a list of them, else by --num-classes or the model's
/// argument: whoever says a number must say the same.
void require_agreement(const Options& options, const model::InputSpec& wants, const data::SampleSpec& spec);

/// A model may have room for more tokens than the data, but not for fewer.
void take_vocabulary(const Options& options, const model::InputSpec& wants, model::InputSpec& input);

/// --label-smoothing takes the place of the model's own; a model that learns values reads neither.
void take_label_smoothing(const Options& options, model::Model& model);

/// A plugin's data set may bring states of any shape.
void require_fitting_states(const Options& options, const Shape& taken, const Shape& brought);

/// A data set of one's own may count as it likes: `set` has so many samples and classes as a run can number.
/// `what` it is, for people; `least` samples.
void require_counts(std::string_view what, const data::Dataset& set, std::int64_t least);

/// Samples have the types of the model's inputs and targets.
void require_same_types(const model::InputSpec& input, const data::SampleSpec& spec);

}  // namespace lockstep::runtime
