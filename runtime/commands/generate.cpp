#include "runtime/commands/generate.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "runtime/commands/with_peers.h"
#include "runtime/generate/beam_search.h"
#include "runtime/generate/generator.h"
#include "runtime/generate/prompts.h"
#include "runtime/machine/open_device.h"
#include "runtime/output/standard_output.h"
#include "runtime/plan/signature.h"
#include "runtime/run/inference.h"
#include "runtime/run/kept_plans.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/text_vocabulary.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {
namespace {

/// Between two votes of the ranks: whether one still writes, and whether one was asked to stop.
constexpr int tokens_of_a_turn = 16;

/// That of --tokenizer, which the run's config.ini tells, or the characters that are kept with the weights,
/// or one beside these; else the data set has it.
data::TokenizerPtr tokenizer_for(const Options& options, const WeightsFile& weights) {
  const bool by_characters = options.tokenizer == "characters";
  if (!options.tokenizer.empty() && !by_characters) return open_tokenizer_for(weights, options.tokenizer);
  std::vector<std::string> names = weights.token_names();
  const std::filesystem::path beside = tokenizer_of(weights.path());
  if (names.empty() && !by_characters && !beside.empty()) return open_tokenizer_for(weights, beside);
  if (names.empty()) names = names_of_data(options).tokens;
  if (!names.empty()) return data::make_character_tokenizer(names);
  throw UsageError(fmt::format(
      "{}: no vocabulary is kept with these weights; give --tokenizer PATH, or the text that they "
      "were trained on: --dataset text --data-dir FILE.txt",
      weights.path().string()));
}

bool translates(const Options& options) {
  return options.dataset == "parallel-text";
}

/// Of each prompt: --samples, which otherwise counts synthetic data, as a run's config.ini may do.
std::int64_t texts_of_each(const Options& options) {
  return options.is_on_command_line("samples") ? options.samples : 1;
}

/// UsageError for what a search by beams would pass over.
void require_fit_for_beams(const Options& options) {
  const GenerationOptions& generation = options.generation;
  if (generation.beam == 1) return;
  if (!translates(options)) {
    throw UsageError("--beam is for translations, of a model that was trained on --dataset parallel-text");
  }
  if (texts_of_each(options) > 1)
    throw UsageError("--samples with --beam: of each prompt the likeliest is searched; leave one out");
  if (generation.stop) {
    throw UsageError("--stop with --beam: a translation ends where the model ends it; leave one out");
  }
  // Hypotheses are compared by their probabilities at temperature 1; 0 asks for the likeliest, as they do.
  const bool tempers = generation.temperature != 0 && generation.temperature != 1;
  const char* const draws = generation.top_k > 0   ? "--top-k"
                            : generation.top_p < 1 ? "--top-p"
                            : tempers              ? "--temperature"
                                                   : nullptr;
  if (draws == nullptr) return;
  throw UsageError(
      fmt::format("{} with --beam: the likeliest is searched, nothing drawn; leave one out", draws));
}

struct Windows {
  model::InputSpec spec;
  std::string_view limit;  ///< what sets their length
};

/// Of the model's own length, or of that which it was trained on: positions behind it are none that it knows.
/// UsageError when it does not give the next token of each.
Windows windows_of(const Options& options) {
  model::InputSpec wanted = wanted_input(options);
  std::string_view limit = "its block_size";
  if (wanted.shape.rank() == 1 && options.seq_len > 0) {
    // One that is longer than what the model knows it refuses itself.
    const bool learned = options.seq_len != wanted.shape[0] || translates(options);
    if (learned && wanted.target_shape == wanted.shape) wanted.target_shape = {options.seq_len};
    if (learned) wanted.shape = {options.seq_len};
    if (learned) limit = "--seq-len, that of its training unless given";
  }
  if (wanted.vocab_size > 0 && wanted.shape.rank() == 1 && wanted.target_shape == wanted.shape)
    return {wanted, limit};
  throw UsageError(
      fmt::format("--prompt: model {} gives no next token for each of a text's; gpt2 does", options.model));
}

TrainingTask task_for_prompts(const Options& options, const WeightsFile& weights,
                              const model::InputSpec& windows, const data::Tokenizer& tokenizer) {
  data::SampleSpec spec{.input_dtype = windows.dtype,
                        .input_shape = windows.shape,
                        .target_shape = windows.target_shape,
                        .num_classes = tokenizer.size(),
                        .vocab_size = tokenizer.size()};
  if (translates(options)) {
    spec.source_length = windows.shape[0];
    spec.input_shape = {2 * windows.shape[0]};
    spec.num_classes = spec.vocab_size = tokenizer.size() + 1;
  }
  return task_for_weights(options, weights, spec, nullptr);
}

std::unique_ptr<TextWriter> writer_for(const Options& options, Decoder& decoder,
                                       const data::Tokenizer& tokenizer) {
  const GenerationOptions& generation = options.generation;
  const bool never_ends = translates(options) || (generation.stop && generation.stop->empty());
  if (generation.beam > 1) {
    return std::make_unique<BeamSearch>(decoder, tokenizer,
                                        BeamOptions{.beams = generation.beam,
                                                    .max_new_tokens = generation.max_new_tokens,
                                                    .boundary = tokenizer.size()});
  }
  return std::make_unique<Generator>(
      decoder, tokenizer,
      GeneratorOptions{.max_new_tokens = generation.max_new_tokens,
                       .stop = generation.stop.value_or(""),
                       .boundary = translates(options) ? std::optional(tokenizer.size()) : std::nullopt,
                       .end_of_text = never_ends ? std::nullopt : data::end_of_text(tokenizer),
                       .sampling = {.temperature = generation.temperature,
                                    .top_k = generation.top_k,
                                    .top_p = generation.top_p,
                                    .seed = options.seed}});
}

/// What is to be written: `of_each` texts of each prompt, one behind the other.
struct Texts {
  std::vector<Prompt> prompts;
  std::int64_t of_each = 1;

  std::int64_t size() const { return std::ssize(prompts) * of_each; }
  const Prompt& prompt_of(std::int64_t number) const {
    return prompts[static_cast<std::size_t>(number / of_each)];
  }
};

/// Texts are dealt out to the ranks in turn, as many at a time as there are rows; rank 0 prints what all have
/// written in their order.
class Dealer {
 public:
  Dealer(Session& session, TextWriter& writer, const Texts& texts)
      : session_(session), writer_(writer), texts_(texts), rows_(writer.places()) {}

  /// Collective. False when a rank was asked to stop.
  bool run(const StopRequest& stop_request) {
    Activity::Work work(session_.activity.get(), std::string("writing"), Activity::Needs::peers);
    const std::int64_t of_all = rows_ * session_.world.size;
    for (std::int64_t first = 0; first < texts_.size(); first += of_all) {
      begin(first);
      do {
        for (int token = 0; token < tokens_of_a_turn && writer_.is_active(); ++token) {
          writer_.advance();
          work.advance();
        }
        if (stops(stop_request)) return false;
      } while (any_active_);
      print(first);
    }
    return true;
  }

 private:
  std::int64_t number_of(std::int64_t first, std::int64_t row, std::int64_t rank) const {
    return first + row * session_.world.size + rank;
  }

  void begin(std::int64_t first) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t number = number_of(first, row, session_.world.rank);
      if (number >= texts_.size()) return;
      writer_.begin(row, number, texts_.prompt_of(number).tokens);
    }
  }

  bool stops(const StopRequest& stop_request) {
    std::array sums{writer_.is_active() ? 1.0 : 0.0, stop_request.made() ? 1.0 : 0.0};
    session_.communicator->all_reduce_sum(sums);
    any_active_ = sums[0] > 0;
    return sums[1] > 0;
  }

  void print(std::int64_t first) {
    std::string mine;
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t number = number_of(first, row, session_.world.rank);
      if (number >= texts_.size()) break;
      const Generated& written = writer_.result(row);
      mine += generated_line(texts_.prompt_of(number).text, written.text, written.tokens,
                             name_of(written.reason)) +
              "\n";
    }
    const std::vector<std::string> by_rank = session_.communicator->all_gather(mine);
    if (!session_.is_rank0()) return;
    std::vector<std::istringstream> lines(by_rank.begin(), by_rank.end());
    std::string line;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::istringstream& of_rank : lines) {
        if (std::getline(of_rank, line)) print_result(line);
      }
    }
  }

  Session& session_;
  TextWriter& writer_;
  const Texts& texts_;
  const std::int64_t rows_;
  bool any_active_ = false;
};

/// Texts at a time: as many as there are, and --batch-size at most.
std::int64_t places_for(const Options& options, const Session& session, const Texts& texts) {
  const std::int64_t ranks = session.world.size;
  return std::min(batch_size_per_rank(options, session.world.size), parts_of(texts.size(), ranks));
}

}  // namespace

int write_on(const SavedWeights& saved, const Options& options) {
  const bool all_ranks_read = !options.generation.has_prompts_in_standard_input();
  std::string prompt_file = all_ranks_read ? read_prompt_file(options.generation, nullptr) : std::string();
  require_fit_for_beams(options);
  const Windows windows = windows_of(options);
  const std::int64_t capacity = windows.spec.shape[0];
  StopRequest stop_request;
  Session session = open_session(options);
  keep_library_plans(session);
  return with_peers(session, options.timeout, [&](const SetRun&) {
    if (!all_ranks_read) {  // rank 0 alone has launch's input
      if (session.is_rank0()) prompt_file = read_prompt_file(options.generation, session.activity.get());
      prompt_file = session.communicator->all_gather(prompt_file).front();
    }
    stop_request.accept();
    const std::vector<std::string> typed = prompts_of(options.generation, prompt_file);
    require_equal(*session.communicator, "the prompts",
                  fmt::format("{} of each\n{}\n", texts_of_each(options), fmt::join(typed, "\n")));
    const WeightsFile weights = open_weights(saved, options.model);
    const data::TokenizerPtr tokenizer =
        judged_on_all_ranks(*session.communicator, [&] { return tokenizer_for(options, weights); });
    const TrainingTask task = task_for_prompts(options, weights, windows.spec, *tokenizer);
    const Texts texts{.prompts = encode_prompts(typed, *tokenizer, capacity, windows.limit),
                      .of_each = texts_of_each(options)};
    Options of_plan = options;
    of_plan.amp = "off";  // weights are read once a token, in f32: narrow copies of them would cost more
    of_plan.freeze.clear();
    const GenerationOptions& generation = options.generation;
    const std::int64_t rows = generation.beam * places_for(options, session, texts);
    Decoder decoder(*session.device, *session.communicator, task.model, task.input,
                    {.rows = rows, .capacity = capacity, .branches = generation.beam > 1},
                    plan_constraints(of_plan));
    ParameterIO replica(*session.device, decoder.plan(), decoder.memory());
    replica.load(weights);
    require_equal(*session.communicator, "the weights", replica.fingerprint());
    const std::unique_ptr<TextWriter> writer = writer_for(options, decoder, *tokenizer);
    const bool done = Dealer(session, *writer, texts).run(stop_request);
    session.communicator->barrier();
    return done ? ExitCode::done : ExitCode::stopped;
  });
}

}  // namespace lockstep::runtime
