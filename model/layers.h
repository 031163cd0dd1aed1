#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/export.h"
#include "model/graph.h"

namespace lockstep::model {

/// A value of a graph under construction: what layers take and give. Cheap to copy.
class Tensor {
 public:
  Tensor(Graph& graph, ValueId id) : graph_(&graph), identity_(graph.identity()), id_(id) {}
  /// As all that asks for it, UsageError for a tensor whose graph is gone: a model kept it from an earlier
  /// call of forward. Layers refuse one of another graph that is there.
  Graph& graph() const {
    if (identity_.expired()) throw_stray_tensor();
    return *graph_;
  }
  ValueId id() const { return id_; }
  bool is_of(const Graph& graph) const { return graph_ == &graph && !identity_.expired(); }
  const Shape& shape() const { return graph().given(id_).type.shape; }
  DType dtype() const { return graph().given(id_).type.dtype; }

 private:
  Graph* graph_;
  std::weak_ptr<const void> identity_;  ///< another graph may come to lie where that one was
  ValueId id_;
};

/// Layers. `name` is the layer's place in the model and the prefix of its parameters in files, as in PyTorch:
/// linear(x, "fc1", 128) has fc1.weight (128, I) and fc1.bias (128). Parameters start as PyTorch's do.
/// All throw UsageError naming the layer when the shapes do not fit. They compute in fp32, and where
/// --amp says so in bf16 or fp16: layers refuse inputs of another dtype in the same way, unless they only
/// move numbers (flatten, split and the like).

struct LinearOptions {
  bool bias = true;
  std::optional<Initializer> initializer{};  ///< of the weight, with a bias of zeros
  std::optional<Initializer> bias_initializer{};
  bool file_transposed =
      false;  ///< the weight is (in_features, out_features) in files: Hugging Face's Conv1D
};
/// x (..., in_features); gives (..., out_features).
LOCKSTEP_API Tensor linear(Tensor x, const std::string& name, std::int64_t out_features,
                           LinearOptions options = {});

/// The same with values that exist, weight (out_features, in_features) and perhaps bias (out_features): the
/// classifier of a language model on the weight of its embedding.
LOCKSTEP_API Tensor shared_linear(Tensor x, Tensor weight, std::optional<Tensor> bias = {});

/// A parameter by itself, as nn.Parameter: learned positions, say.
LOCKSTEP_API Tensor parameter(Graph& graph, const std::string& name, Shape shape,
                              Initializer initializer = {});

struct EmbeddingOptions {
  std::optional<Initializer> initializer{};  ///< none: normal around 0 with deviation 1
};
/// nn.Embedding: tokens (...) i64 to rows (..., dim) f32 of `<name>.weight` (vocab, dim). Token -1 is
/// padding: zeros, and no gradient. Any other token outside [0, vocab) gives rows that are not numbers.
LOCKSTEP_API Tensor embedding(Tensor tokens, const std::string& name, std::int64_t vocab, std::int64_t dim,
                              EmbeddingOptions options = {});
/// With a weight that exists, which other layers may read too.
LOCKSTEP_API Tensor embedding(Tensor tokens, Tensor weight);
/// `<name>.weight` (vocab, dim), for `embedding` and `shared_linear`.
LOCKSTEP_API Tensor embedding_weight(Graph& graph, const std::string& name, std::int64_t vocab,
                                     std::int64_t dim, Initializer initializer = {.deviation = 1});

struct Conv2dOptions {
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<Initializer> initializer{};  ///< of the weight, with a bias of zeros
};
/// x (N, C, H, W).
LOCKSTEP_API Tensor conv2d(Tensor x, const std::string& name, Conv2dOptions options);
/// torch.nn.init.kaiming_normal_ for relu with fan_out (He, Zhang, Ren, Sun 2015), as torchvision starts its
/// convolutions.
LOCKSTEP_API Initializer kaiming_normal_fan_out(const Conv2dOptions& options);

struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 0;  ///< 0: as the kernel
  std::int64_t padding = 0;
};
/// x (N, C, H, W). What is left at the bottom and right of the last whole window is dropped (PyTorch's
/// ceil_mode=False).
LOCKSTEP_API Tensor max_pool2d(Tensor x, PoolOptions options = {});
/// The same; padding counts as zeros.
LOCKSTEP_API Tensor avg_pool2d(Tensor x, PoolOptions options = {});
/// nn.AdaptiveAvgPool2d: (N, C, H, W) to (N, C, out_h, out_w); 1 and 1 average each channel.
LOCKSTEP_API Tensor adaptive_avg_pool2d(Tensor x, std::int64_t out_h, std::int64_t out_w);

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
};
/// x (N, C, H, W) or (N, C), also of bf16 or f16. weight starts as ones, bias as zeros. A training graph
/// normalises by the batch and moves the buffers running_mean, running_var and num_batches_tracked; another
/// graph normalises by the running statistics.
LOCKSTEP_API Tensor batch_norm2d(Tensor x, const std::string& name, BatchNormOptions options = {});

struct LayerNormOptions {
  double eps = 1e-5;
  bool bias = true;
};
/// Over the last dimension of x. weight starts as ones, bias as zeros.
LOCKSTEP_API Tensor layer_norm(Tensor x, const std::string& name, LayerNormOptions options = {});

struct RmsNormOptions {
  double eps = 0x1p-23;  ///< that of f32, as PyTorch's None
};
/// nn.RMSNorm over the last dimension of x. weight starts as ones.
LOCKSTEP_API Tensor rms_norm(Tensor x, const std::string& name, RmsNormOptions options = {});

/// (N, T, ...) to (T, N, ...), as recurrent layers take it, and back.
LOCKSTEP_API Tensor steps_first(Tensor x);
/// Tokens (N, T) i64: how many come before the padding of each row, which is -1; gives (N).
LOCKSTEP_API Tensor sequence_lengths(Tensor tokens);
/// x (T, N, ...): its last step, with `lengths` (N) the last one that each row has; gives (N, ...).
LOCKSTEP_API Tensor last_step(Tensor x, std::optional<Tensor> lengths = {});

/// By layer of a recurrent network; `c` is an LSTM's alone.
struct RecurrentStates {
  std::vector<Tensor> h, c;
};
/// y (T, N, hidden) is the last layer's output: with `lengths` zeros behind a row's end, as
/// pad_packed_sequence has them. `steps` are the states of all steps (T, N, hidden): `last_step` makes h_n
/// and c_n of them.
struct RecurrentOutput {
  Tensor y;
  RecurrentStates steps;
};
/// What a layer computes behind the product of inputs and weight_ih and both biases: `pre` (T, N, hidden), of
/// an LSTM (T, N, 4 hidden) in the order i, f, g, o. All are of one type: f32, bf16 or f16.
LOCKSTEP_API RecurrentOutput rnn_steps(Tensor pre, Tensor weight_hh, bool relu,
                                       std::optional<Tensor> lengths = {},
                                       const RecurrentStates& initial = {});
LOCKSTEP_API RecurrentOutput lstm_steps(Tensor pre, Tensor weight_hh, std::optional<Tensor> lengths = {},
                                        const RecurrentStates& initial = {});
struct RnnOptions {
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  bool relu = false;   ///< else tanh
  double dropout = 0;  ///< of what a layer gives to the next
};
/// nn.RNN: x (T, N, in_features), as without batch_first. Parameters have its names, weight_ih_l0 and so on,
/// and start uniform in +-1/sqrt(hidden). `initial`: the h before the first step, (N, hidden) by layer, else
/// 0.
LOCKSTEP_API RecurrentOutput rnn(Tensor x, const std::string& name, RnnOptions options,
                                 std::optional<Tensor> lengths = {}, const RecurrentStates& initial = {});
struct LstmOptions {
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  double dropout = 0;
};
/// nn.LSTM in the same way; `initial` has h and c.
LOCKSTEP_API RecurrentOutput lstm(Tensor x, const std::string& name, LstmOptions options,
                                  std::optional<Tensor> lengths = {}, const RecurrentStates& initial = {});

/// What the samples bring as states before the first step (InputSpec::states); empty where they bring none.
LOCKSTEP_API RecurrentStates initial_states(Graph& graph);
/// In a graph that returns states those of each row's last step are its `final_states`. `steps`: of a
/// network's RecurrentOutput.
LOCKSTEP_API void return_states(const RecurrentStates& steps, std::optional<Tensor> lengths = {});

/// nn.Dropout: in a training graph each element is 0 with probability p, else divided by 1 - p; elsewhere,
/// and for p = 0, it is x itself. p in [0, 1). x (N, ...), or `steps_first` (T, N, ...).
LOCKSTEP_API Tensor dropout(Tensor x, double p, bool steps_first = false);

struct AttentionOptions {
  std::int64_t heads = 1;
  bool causal = false;                 ///< position t sees keys 0 to t
  std::optional<double> scale{};       ///< of q k^T; 1 / sqrt(columns of a head), if not given
  std::optional<Tensor> key_tokens{};  ///< (N, S) i64: keys whose token is -1 are not seen
  /// (N, T) i64, of each token in its document, -1 of padding: with `causal` no document sees another.
  std::optional<Tensor> positions{};
  double dropout = 0;  ///< of the probabilities, as nn.Dropout: in [0, 1)
  std::string layer = "attention";
};
/// torch's scaled_dot_product_attention: q (N, T, heads * D), k and v (N, S, heads * D), a head's columns
/// side by side; gives (N, T, heads * D). A position that sees no key gets zeros. Memory is linear in T and
/// S.
LOCKSTEP_API Tensor attention(Tensor q, Tensor k, Tensor v, AttentionOptions options);
/// The same with k|v (N, S, 2 * heads * D), and with q|k|v (N, T, 3 * heads * D), as projections give them.
LOCKSTEP_API Tensor attention(Tensor q, Tensor kv, AttentionOptions options);
LOCKSTEP_API Tensor attention(Tensor qkv, AttentionOptions options);

/// x (..., T, D) plus sines and cosines of the position, as in "Attention is all you need".
LOCKSTEP_API Tensor position_encoding(Tensor x);

/// The functions of kernels/pointwise.def: relu(x), add(a, b) and so on. Two operands broadcast as in
/// PyTorch.
#define LOCKSTEP_UNARY(Function, name) LOCKSTEP_API Tensor name(Tensor x);
#define LOCKSTEP_BINARY(Function, name) LOCKSTEP_API Tensor name(Tensor a, Tensor b);
#include "kernels/pointwise.def"

/// The same numbers, row-major, in another shape.
LOCKSTEP_API Tensor reshape(Tensor x, Shape shape);
/// (N, ...) to (N, product of the rest).
LOCKSTEP_API Tensor flatten(Tensor x);
/// Dimension i is dimension axes[i] of x; no copy where the next op takes strides.
LOCKSTEP_API Tensor permute(Tensor x, std::vector<std::int64_t> axes);
/// Extents of 1 and missing leading dimensions are repeated.
LOCKSTEP_API Tensor expand(Tensor x, Shape shape);

/// The same numbers as f32, bf16 or f16; the gradient comes back in the type of x.
LOCKSTEP_API Tensor cast(Tensor x, DType to);

/// torch.split: x cut along `dim` into parts of these sizes. A negative `dim` counts from the last.
LOCKSTEP_API std::vector<Tensor> split(Tensor x, std::vector<std::int64_t> sizes, std::int64_t dim);
/// torch.cat: the parts one behind another along `dim`.
LOCKSTEP_API Tensor concat(std::vector<Tensor> parts, std::int64_t dim);

/// For x (N, T, ...) of tokens the rows of their positions from `table` (positions, D): the first T of them,
/// (T, D). In a graph that decodes those where the new tokens are, (N, T, D), and zeros for padding.
LOCKSTEP_API Tensor rows_of_positions(Tensor x, Tensor table);

/// While it lives, layers work on whole sequences where the graph decodes, too: of an encoder.
class LOCKSTEP_API WholeSequences {
 public:
  explicit WholeSequences(Graph& graph) : graph_(graph) { suspend(true); }
  ~WholeSequences() { suspend(false); }
  WholeSequences(const WholeSequences&) = delete;

 private:
  void suspend(bool on) {
    if (graph_.decoding) graph_.decoding->suspended = on;
  }
  Graph& graph_;
};

/// x, which follows from a source or from parameters alone: in a graph that decodes it is computed once for
/// each source.
LOCKSTEP_API Tensor once_for_source(Tensor x);

struct CachedAttentionOptions {
  std::int64_t heads = 1;
  double scale = 1;
};
/// In a graph that decodes: q, k and v (N, T, heads * D) of new tokens. Their keys and values go into caches,
/// and each query sees those up to its own position. What `attention` with `causal` is there.
LOCKSTEP_API Tensor cached_attention(Tensor q, Tensor k, Tensor v, const std::string& name,
                                     CachedAttentionOptions options);
/// The same with the keys and values of a source (N, S, heads * D), of which each query sees those whose
/// `tokens` (N, S) are no padding, which comes last. What `attention` with `key_tokens` is there.
LOCKSTEP_API Tensor cached_cross_attention(Tensor q, Tensor k, Tensor v, Tensor tokens,
                                           const std::string& name, CachedAttentionOptions options);

/// torch.utils.checkpoint: block(x), whose layers are a segment, such as a residual block. With --recompute
/// its activations are not kept for backward, which computes them again. A segment in a segment is a part of
/// it.
LOCKSTEP_API Tensor segment(Tensor x, const std::function<Tensor(Tensor)>& block);

}  // namespace lockstep::model
