#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gather_rows.h"
#include "kernels/pictures.h"
#include "kernels/token_windows.h"
#include "model/layers.h"

namespace lockstep::model {

enum class LossKind { cross_entropy, mean_squared_error };

/// What a model is to be built for, or wants where a data set can have any shape. Tokens are i64 (T): 0 to
/// vocab_size - 1, and behind a sequence that is shorter than others -1 (padding), from which models derive
/// true lengths and masks.
struct InputSpec {
  Shape shape;                   ///< of one sample, without the batch
  std::int64_t num_classes = 0;  ///< 0: a regression to `target_shape`
  Shape target_shape;            ///< with classes: {} for one a sample, {T} for one a token
  DType dtype = DType::f32;      ///< of the inputs
  std::int64_t vocab_size = 0;   ///< of tokens; 0: the inputs are none
  /// Encoder-decoder: so many tokens of a row are the source, those behind them the target's input. 0: one
  /// sequence, which serves as both.
  std::int64_t source_length = 0;
  /// States that each sample brings, f32: h, or h and c, by layer (1 or 2, layers, hidden). Rank 0: none, and
  /// recurrent layers start from zeros.
  Shape states{};
  /// A row holds documents behind each other, none of which is to see another: its tokens (T), and then the
  /// position of each in its document (T); both -1 for padding. `shape` is {2 T}.
  bool packed = false;
  /// What makes these inputs of the bytes as which a GPU is given them: the graph's first node. None: they
  /// come as they are.
  std::optional<kernels::PicturesToFloats> pictures{};
  /// The same of windows of tokens that the device keeps: that node makes the targets, too.
  std::optional<kernels::GatherWindows> windows{};
  std::optional<kernels::GatherRows> rows{};  ///< and of whole samples
  std::int64_t stored = 0;                    ///< pictures, tokens or samples that the device keeps
};

/// The same for sequences that are cut to `length` (of a row, its source included); 0: they are whole.
InputSpec cut_to(InputSpec input, std::int64_t length);

/// A network and its loss. `forward` composes layers on a batch (N, ...) and gives logits (N, classes), with
/// a class for each token (N, T, classes), or values (N, ...). It is called for batches of other sizes and
/// for shorter sequences than `make` was told: parameters' shapes do not follow the batch.
struct Model {
  std::string name;
  std::function<Tensor(Tensor batch)> forward;
  LossKind loss = LossKind::cross_entropy;
  float label_smoothing = 0;  ///< of the cross-entropy; --label-smoothing takes its place
};

/// The network alone on a batch: what evaluation, prediction and export share; `Graph::output` is what it
/// gives, with `returns_states` of a recurrent network `Graph::final_states`, too. UsageError when the output
/// does not fit the targets, or there is no `forward`.
Graph build_forward(const Model& model, const InputSpec& input, std::int64_t batch_size,
                    bool training = false, bool returns_states = false);

/// The network on `tokens` new tokens a row, behind those that its caches have, `capacity` at most. Of a
/// model whose samples are sequences (T, ...); where they have a source, it comes first in a row. `branches`:
/// rows share what they have in common (Decoding::cache_rows).
Graph build_decoding(const Model& model, const InputSpec& input, std::int64_t batch_size, std::int64_t tokens,
                     std::int64_t capacity, bool branches = false);

/// Names of the parameters of the last layer that has any, on the way to the output: of a classifier those
/// whose first dimension is the classes.
std::vector<std::string> head_parameters(const Graph& forward);

/// Names of the parameters that the first op with any reads beside tokens (i64 inputs, or parts of them): of
/// an embedding the one whose first dimension is the vocabulary.
std::vector<std::string> token_parameters(const Graph& forward);

/// With targets, step state and loss: of one evaluation or, before differentiation, of one training step.
Graph build_graph(const Model& model, const InputSpec& input, std::int64_t batch_size, bool training,
                  bool returns_states = false);

struct LossOperands {
  ValueId predictions;  ///< (N, K), with a class for each token (N, T, K); values (N, ...)
  ValueId targets;      ///< classes (N) or (N, T) i64, or values (N, ...) f32
  ValueId step_state;
};

/// The last node of forward, which writes the control block, and with `has_gradient` is the start of
/// backward. UsageError when the operands do not fit.
void add_cross_entropy(Graph& graph, const LossOperands& operands, float label_smoothing, bool has_gradient);
void add_mean_squared_error(Graph& graph, const LossOperands& operands, bool has_gradient);

/// A linear map and its cross entropy in one (kernels/classifier.h), for the pass that puts it in their
/// place.
OpPtr classifier_loss_op(float label_smoothing, bool has_gradient);

}  // namespace lockstep::model
