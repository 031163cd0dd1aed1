#include "kernels/base/error.h"
#include "model/zoo/zoo.h"

namespace lockstep::model {
namespace {

constexpr Range<std::int64_t> layer_counts{1, 1024};
constexpr std::int64_t vocabulary = 10'000;
constexpr std::int64_t length = 64;

const IntegerArgument vocab_size{.key = "vocab_size", .otherwise = vocabulary, .range = feature_counts};
const RealArgument dropout_share{.key = "dropout", .otherwise = 0, .range = {0, 0.999}};
const ChoiceArgument output{.key = "output", .choices = {"last", "all"}};

/// An argument whose default is not the same in both models.
IntegerArgument number(const char* key, std::int64_t otherwise, Range<std::int64_t> range = feature_counts) {
  return {.key = key, .otherwise = otherwise, .range = range};
}

namespace of_rnn {
const IntegerArgument embedding_dim = number("embedding", 128);
const IntegerArgument hidden = number("hidden", 256);
const IntegerArgument layers = number("layers", 1, layer_counts);
const IntegerArgument num_classes = class_count(10);
const ChoiceArgument nonlinearity{.key = "nonlinearity", .choices = {"tanh", "relu"}};
}  // namespace of_rnn

namespace of_lstm {
const IntegerArgument embedding_dim = number("embedding", 256);
const IntegerArgument hidden = number("hidden", 512);
const IntegerArgument layers = number("layers", 2, layer_counts);
const IntegerArgument num_classes = class_count(vocabulary);
}  // namespace of_lstm

/// (N, T) tokens, for each row a class or with `output=all` for each token.
InputSpec tokens(const ModelArgs& args, std::int64_t classes) {
  return {.shape = {length},
          .num_classes = classes,
          .target_shape = output.of(args) == "all" ? Shape{length} : Shape{},
          .dtype = DType::i64,
          .vocab_size = vocab_size.of(args)};
}

/// What comes before and behind the recurrent layers.
struct Ends {
  std::int64_t embedding;
  bool all_steps;
  InputSpec input;

  Ends(const std::string& model, const ModelArgs& args, std::int64_t dim, const InputSpec& data)
      : embedding(dim), all_steps(output.of(args) == "all"), input(data) {
    const bool are_numbers = data.dtype == DType::f32 && data.shape.rank() == 2;
    if (!are_numbers) require_tokens(model, data);
    if (data.source_length == 0) return;
    throw UsageError(
        "rnn and lstm take one sequence, not a source and a target: give the tokens as `inputs`");
  }

  LossKind loss() const {
    return input.num_classes > 0 ? LossKind::cross_entropy : LossKind::mean_squared_error;
  }

  /// Numbers that the last layer gives for a row, or for a step of it.
  std::int64_t features() const {
    if (input.num_classes > 0) return input.num_classes;
    return input.target_shape.elements(all_steps ? 1 : 0);
  }

  /// `layers(x, lengths, initial)` between an embedding, which sequences of numbers (N, T, F) do without, and
  /// `fc`.
  template <class Layers>
  Tensor operator()(Tensor x, const Layers& layers) const {
    const bool are_tokens = x.dtype() == DType::i64;
    std::optional<Tensor> lengths;
    if (are_tokens) lengths = sequence_lengths(x);
    x = steps_first(x);
    if (are_tokens) x = model::embedding(x, "embedding", input.vocab_size, embedding);
    const RecurrentOutput states = layers(x, lengths, initial_states(x.graph()));
    return_states(states.steps, lengths);
    Tensor y = all_steps ? steps_first(states.y) : last_step(states.y, lengths);
    y = linear(y, "fc", features());
    return input.num_classes > 0 ? y : reshape(y, values_shape(x.shape()));
  }

  /// Of x (T, N, ...): (N) and that of the targets, of which with `output=all` the first extent are the
  /// steps.
  Shape values_shape(const Shape& x) const {
    std::vector<std::int64_t> extents{x[1]};
    if (all_steps) extents.push_back(x[0]);
    const auto rest = input.target_shape.begin() + (all_steps && input.target_shape.rank() > 0 ? 1 : 0);
    extents.insert(extents.end(), rest, input.target_shape.end());
    return Shape(std::move(extents));
  }
};

}  // namespace

ZooEntry rnn_entry() {
  using namespace of_rnn;
  return {.name = "rnn",
          .what = "embedding, recurrent layers, a linear layer on the last state; or on sequences of numbers",
          .arguments = {vocab_size, embedding_dim, hidden, layers, dropout_share, num_classes, nonlinearity,
                        output},
          .wants = [](const ModelArgs& args) { return tokens(args, num_classes.of(args)); },
          .make =
              [](const ModelArgs& args, const InputSpec& input) {
                const RnnOptions options{.hidden = hidden.of(args),
                                         .layers = layers.of(args),
                                         .relu = nonlinearity.of(args) == "relu",
                                         .dropout = dropout_share.of(args)};
                const Ends ends("rnn", args, embedding_dim.of(args), input);
                return Model{.name = "rnn",
                             .forward =
                                 [=](Tensor x) {
                                   return ends(x, [&](Tensor steps, const std::optional<Tensor>& lengths,
                                                      const RecurrentStates& initial) {
                                     return rnn(steps, "rnn", options, lengths, initial);
                                   });
                                 },
                             .loss = ends.loss()};
              },
          .example = "--dataset synthetic --batch-size 32",
          .states =
              [](const ModelArgs& args) {
                return Shape{1, layers.of(args), hidden.of(args)};
              }};
}

ZooEntry lstm_entry() {
  using namespace of_lstm;
  return {.name = "lstm",
          .what = "embedding, LSTM, a linear layer on the last output; classes are the vocabulary",
          .arguments = {vocab_size, embedding_dim, hidden, layers, dropout_share, num_classes, output},
          .wants =
              [](const ModelArgs& args) {
                const bool typed = args.contains(num_classes.key);
                return tokens(args, typed ? num_classes.of(args) : vocab_size.of(args));
              },
          .make =
              [](const ModelArgs& args, const InputSpec& input) {
                const LstmOptions options{
                    .hidden = hidden.of(args), .layers = layers.of(args), .dropout = dropout_share.of(args)};
                const Ends ends("lstm", args, embedding_dim.of(args), input);
                return Model{.name = "lstm",
                             .forward =
                                 [=](Tensor x) {
                                   return ends(x, [&](Tensor steps, const std::optional<Tensor>& lengths,
                                                      const RecurrentStates& initial) {
                                     return lstm(steps, "lstm", options, lengths, initial);
                                   });
                                 },
                             .loss = ends.loss()};
              },
          .example = "--dataset synthetic --batch-size 32",
          .states =
              [](const ModelArgs& args) {
                return Shape{2, layers.of(args), hidden.of(args)};
              }};
}

}  // namespace lockstep::model
