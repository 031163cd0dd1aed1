#include "runtime/run/task_agreement.h"

#include <fmt/format.h>

#include "data/text/vocabulary.h"
#include "data/text/windows.h"
#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

std::string describe(DType dtype, const Shape& shape) {
  return fmt::format("{} ({})", name_of(dtype), shape.str());
}

}  // namespace

bool wants_tokens(const model::InputSpec& wants) {
  return wants.vocab_size > 0;
}

bool targets_each_token(const model::InputSpec& wants) {
  return wants.num_classes > 0 && wants.target_shape.rank() > 0;
}

std::string vocabulary_file(const Options& options) {
  const auto found = options.model_arg_files.find("vocab_size");
  return found == options.model_arg_files.end() ? std::string() : found->second.string();
}

std::int64_t given_vocabulary(const Options& options, const model::InputSpec& wants) {
  const bool by_argument = options.model_args.contains("vocab_size");
  const std::string file = vocabulary_file(options);
  if (!file.empty() && options.vocab_size > 0 && options.vocab_size != wants.vocab_size) {
    throw UsageError(fmt::format("--vocab-size {}: {} says {}, as many as its weights have; leave it out",
                                 options.vocab_size, file, wants.vocab_size));
  }
  if (by_argument && options.vocab_size > 0 && options.vocab_size != wants.vocab_size) {
    throw UsageError(fmt::format("--vocab-size {} and --model-args vocab_size={} contradict each other",
                                 options.vocab_size, wants.vocab_size));
  }
  return by_argument ? wants.vocab_size : options.vocab_size;
}

bool predicts_tokens(const Options& options, const model::InputSpec& wants) {
  return wants_tokens(wants) && wants.num_classes == wants.vocab_size && options.num_classes < 0 &&
         !options.model_args.contains("num_classes");
}

void require_known_kind(const Options& options, const model::InputSpec& wants, const model::ZooEntry& model) {
  if (!wants_tokens(wants) && options.seq_len + options.vocab_size > 0) {
    throw UsageError(fmt::format("--{}: model {} takes no tokens; leave it out",
                                 options.seq_len > 0 ? "seq-len" : "vocab-size", options.model));
  }
  if (wants_tokens(wants) && options.image_shape.rank() > 0 && options.dataset == "synthetic") {
    throw UsageError(fmt::format("--image-shape: model {} takes tokens; give --seq-len N", options.model));
  }
  if (data::WindowRule::parse(options.windows).packs() && !model.packs_documents) {
    throw UsageError(fmt::format(
        "--windows {}: model {} would see from one document into the next; take gpt2, or --windows documents",
        options.windows, options.model));
  }
}

void require_no_pictures(const Options& options, const data::DatasetEntry& dataset) {
  if (!dataset.pictures) return;
  const std::string kind = options.data_dir.extension().string();
  const std::string_view sets = kind == ".txt"   ? "text"
                                : kind == ".bin" ? "tokens"
                                : kind == ".tsv" ? "labelled-text"
                                : kind == ".safetensors"
                                    ? "tensors"
                                    : "text, tokens, labelled-text, tensors or synthetic";
  throw UsageError(fmt::format("model {} takes tokens, data set {} has pictures: give --dataset {}",
                               options.model, dataset.name, sets));
}

void require_agreement(const Options& options, const model::InputSpec& wants, const data::SampleSpec& spec) {
  const bool by_argument = options.model_args.contains("num_classes");
  if (by_argument && options.num_classes >= 0 && options.num_classes != wants.num_classes) {
    throw UsageError(fmt::format("--num-classes {} and --model-args num_classes={} contradict each other",
                                 options.num_classes, wants.num_classes));
  }
  const auto require = [&](std::string_view option, std::int64_t typed) {
    if (spec.num_classes == 0 || typed == spec.num_classes) return;
    throw UsageError(fmt::format("{}{}: data set {} has {} classes; leave it out", option, typed,
                                 options.dataset, spec.num_classes));
  };
  if (options.num_classes >= 0) require("--num-classes ", options.num_classes);
  if (by_argument) require("--model-args num_classes=", wants.num_classes);
}

void take_vocabulary(const Options& options, const model::InputSpec& wants, model::InputSpec& input) {
  const std::int64_t given = given_vocabulary(options, wants);
  if (input.vocab_size == 0 || given == 0) return;
  if (given < input.vocab_size) {
    const std::string file = vocabulary_file(options);
    throw UsageError(fmt::format("a vocabulary of {}{}: data set {} has {} tokens; {}", given,
                                 file.empty() ? file : " of " + file, options.dataset, input.vocab_size,
                                 file.empty() ? "leave it out" : data::more_tokens_than_weights));
  }
  if (predicts_tokens(options, wants) && input.num_classes == input.vocab_size) input.num_classes = given;
  input.vocab_size = given;
}

void take_label_smoothing(const Options& options, model::Model& model) {
  if (model.loss != model::LossKind::cross_entropy && options.is_typed("label-smoothing")) {
    throw UsageError(fmt::format(
        "--label-smoothing is of the cross-entropy, but model '{}' learns values: leave it out", model.name));
  }
  if (options.label_smoothing) model.label_smoothing = *options.label_smoothing;
}

void require_fitting_states(const Options& options, const Shape& taken, const Shape& brought) {
  if (brought.rank() == 0 || brought == taken) return;
  throw UsageError(fmt::format("the data set gives states of {} to begin with, model {} takes {}",
                               brought.str(), options.model, taken.rank() == 0 ? "none" : taken.str()));
}

void require_counts(std::string_view what, const data::Dataset& set, std::int64_t least) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (set.size() < least || set.size() > most) {
    throw UsageError(
        fmt::format("the {} has {} samples: {} to {} are possible", what, set.size(), least, most));
  }
  const std::int64_t classes = set.spec().num_classes;
  if (classes >= 0 && classes <= data::most_classes) return;
  throw UsageError(
      fmt::format("the {} has {} classes: 1 to {} are possible, and 0 for targets that are values", what,
                  classes, data::most_classes));
}

void require_same_types(const model::InputSpec& input, const data::SampleSpec& spec) {
  if (spec.input_dtype != input.dtype || spec.input_bytes() != bytes_of(input.dtype, input.shape)) {
    throw UsageError(fmt::format("the data set gives inputs of {}, the model takes {}",
                                 describe(spec.input_dtype, spec.input_shape),
                                 describe(input.dtype, input.shape)));
  }
  const DType dtype = input.num_classes > 0 ? DType::i64 : DType::f32;
  if (spec.target_dtype != dtype || spec.target_bytes() != bytes_of(dtype, input.target_shape)) {
    throw UsageError(fmt::format("the data set gives targets of {}, the model takes {}",
                                 describe(spec.target_dtype, spec.target_shape),
                                 describe(dtype, input.target_shape)));
  }
  if (spec.states_shape != input.states) {
    throw UsageError(fmt::format("the data set gives states of ({}), the model takes ({})",
                                 spec.states_shape.str(), input.states.str()));
  }
}

}  // namespace lockstep::runtime
