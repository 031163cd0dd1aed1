#pragma once

#include <map>
#include <span>
#include <string>

#include "kernels/device.h"
#include "model/graph.h"

namespace lockstep::runtime {

struct ArenaPlan;

/// Layouts of parameters by name: fixed by the first plan of a run, binding for all others, since parameters,
/// gradients and optimizer state lie in memory once.
using ParameterLayouts = std::map<std::string, kernels::Layout>;

/// The passes that rewrite the graph, in the order of make_plan, but those of one file together. What places
/// values in memory and time has headers of its own: algorithms.h, bucket.h, allocate.h, launches.h and
/// schedule.h.

// freeze.cpp

/// `--freeze`: parameters whose names match one of the patterns (globs, as fnmatch(3)) are frozen: they keep
/// their values, and nothing is computed, exchanged or kept for their sake. UsageError for a pattern that
/// matches none, with the nearest names, and when a graph of training has nothing to learn.
void freeze_parameters(model::Graph& graph, std::span<const std::string> patterns);

// fuse_classifier.cpp

/// Right behind `freeze_parameters`: a linear map to 8192 classes or more whose only reader is the cross
/// entropy becomes one op with it (kernels/classifier.h), so that all logits never exist at once. Its
/// gradients are those of the two but for the order of sums. A layer with a frozen parameter, which needs no
/// gradient of it, stays as it is.
void fuse_classifier(model::Graph& graph);

// precision.cpp

/// Mixed precision, before all passes that compute, as torch.autocast, by the lists in precision.cpp:
/// products (`computes_narrow`: convolutions, linear maps, attention, recurrent layers, the large classifier
/// with its loss) take their inputs and parameters as `narrow` (bf16 or f16; f32 changes nothing). Other
/// losses, layer and RMS norms, embeddings, positions, cached attention and a plugin's ops
/// (`computes_in_f32`) take theirs as f32, pointwise functions and concatenations (`takes_the_widest`) the
/// widest of theirs. Any other op, like batch norm and pooling, computes in the type that it gets. UsageError
/// with its layer where it does not take that. A value is cast once for all of its readers, so parameters
/// stay f32, and so does what the network gives.
void autocast(model::Graph& graph, DType narrow);

/// After `fuse`: parameters that `autocast` has cast to `narrow`, whole or in parts, are read from copies
/// which their update writes (Parameter::copy), and the casts are gone. The same bits.
void copy_parameters(model::Graph& graph, DType narrow);

/// `--grad-dtype`, after `fuse`: gradients of parameters are written and exchanged as `dtype`, f32 or bf16.
/// For steps of one micro-batch; those of several round the sum (`sum_gradients_apart`).
void set_gradient_dtype(model::Graph& graph, DType dtype);

// decoding.cpp

/// What a graph that decodes is to do: write the caches of new tokens; with that give the network's output,
/// which becomes a cache, written by the last node; or take in sources, which writes the caches that follow
/// from these. All else goes.
enum class Decodes { fill, output, source };
void prepare_decoding(model::Graph& graph, Decodes what);

/// The same, behind `fuse`: linear maps become products of single rows, in f32, so that what a sequence gets
/// does not depend on those beside it, nor a step on how many there are.
void use_row_products(model::Graph& graph);

// fuse_batch_norm.cpp

/// Of forward alone, before `differentiate`: a batch norm takes up what follows it, an add of the same shape
/// (ResNet's shortcut) and a function, so that one pass over memory does all. The results have the same bits
/// in f32; in half types they are rounded once instead of at each op.
void fuse_batch_norm(model::Graph& graph);

// fuse_layer_norm.cpp

/// Of forward alone, before `differentiate`: a layer norm with a bias takes up the add of the same shape that
/// it reads (a transformer's residual), whose result it writes too; its backward then adds the gradients of
/// both. Of mixed precision's casts it takes up those that nothing else reads: what is added is read, and y
/// written, in the half type, and so are their gradients. It takes up the dropout of such a branch, too. The
/// results have the same bits. With `keep_segments` only within a segment, which `recompute` runs again.
void fuse_layer_norm(model::Graph& graph, bool keep_segments);

// differentiate.cpp

/// Reverse mode: appends the backward nodes and sets every parameter's gradient. Fixes the order in which
/// gradients become ready; a parameter used twice is ready at its last contribution.
/// UsageError names every parameter that the loss does not depend on; with `allow_unused` their gradients are
/// zeros, which come last. Nodes that change buffers go behind all others.
void differentiate(model::Graph& graph, bool allow_unused = false);

/// Makes `gradient`, or a copy of it where that is needed elsewhere, the gradient of the parameter. Of two
/// parameters with the same one each has a copy.
void set_gradient(model::Graph& graph, model::Parameter& parameter, model::ValueId gradient);

// exchange_rows.cpp

/// How gradients of embeddings are exchanged: as rows when the tokens of all ranks are fewer than half of the
/// vocabulary, all dense, or all as rows.
enum class EmbeddingExchange { automatic, dense, rows };

struct RowsOptions {
  EmbeddingExchange way = EmbeddingExchange::automatic;
  int ranks = 1;
  DType dtype = DType::f32;          ///< of gradients as they are exchanged
  const ArenaPlan* arena = nullptr;  ///< of the run's first plan, which has decided
};

/// Behind `differentiate`: the part of a gradient that comes from embedding backward, which has as few rows
/// as the batch has tokens, becomes a list of rows (Parameter::rows). What is left of the gradient is
/// exchanged as soon as it is there: of a tied weight the classifier's part, else nothing. Decided by shapes
/// alone, so that all ranks decide alike. A parameter whose gradient is another value's too, or that an op
/// reads before an embedding, stays dense, and so does one whose rows would be all that is exchanged.
void exchange_rows(model::Graph& graph, const RowsOptions& options);

// sync_batch_norm.cpp

/// `--sync-bn`, behind `differentiate`: batch norm's statistics are those of all ranks' samples, as with
/// torch.nn.SyncBatchNorm. The ranks add their moments in forward and the sums of their gradients in backward
/// (Role::statistics); gradients of weight and bias stay each rank's own.
void sync_batch_norm(model::Graph& graph);

// fuse.cpp

/// Rewrites the differentiated (or evaluation) graph where one kernel can do the work of several:
/// linear or convolution with relu; max-pool backward with relu backward; flatten into the linear layer
/// behind it, whose weights are then seen as (O, C, H, W); the sum of a tied weight's gradients with its
/// embedding's; chains of pointwise ops. The results have the same bits, but for gradients of weights in
/// mixed precision: their sums are no longer rounded before they are cast to f32. Weights in `pinned` are
/// seen as they were when their layouts were chosen.
void fuse(model::Graph& graph, const ParameterLayouts& pinned = {});

// fuse_pointwise.cpp

/// The last part of `fuse`: joins chains of pointwise nodes of one phase, so that intermediate values stay in
/// the cache or in registers. The joined node takes the position and the id of its last part, so no id is new
/// and its inputs exist there. Results of the earlier parts that other nodes read become further outputs.
void fuse_pointwise(model::Graph& graph);

// fuse_gelu.cpp

/// Behind `fuse`, on a GPU, whose library ends products in it: gelu_tanh in half types becomes a part of the
/// linear map before it (kernels/linear_gelu.h), and its gradient of the data gradient of the one behind it.
/// What it is taken of stays a value for backward. The product's result is not rounded before the function.
void fuse_gelu(model::Graph& graph);

// fuse_last_step.cpp

/// Behind `fuse`: the gradient of a recurrent layer of which only each row's last step was read takes that
/// step's alone, and not one of all steps that is zero but there. The same bits.
void fuse_last_step(model::Graph& graph);

// keep_pool_indices.cpp

/// Behind `fuse`: a max pool whose backward stands in the graph keeps where its maxima were, a byte each, and
/// backward reads those instead of the pool's input, which need not be kept for it. The same bits in f32;
/// where windows overlap, half types are rounded once an element and not once a window. A pool whose windows
/// have too many places for a byte stays as it is.
void keep_pool_indices(model::Graph& graph);

// pad_pictures.cpp

/// Of a GPU, before `assign_layouts`: pictures of 2 to 7 channels that the first convolution reads in a half
/// type get room for 8 a pixel, and so do its weights; the library would copy both at each launch. What is
/// added is zero and stays so: files and gradients have the channels that there are.
void pad_pictures(model::Graph& graph);

// pad_widths.cpp

/// Of a GPU, behind `pad_pictures`: widths of linear maps that tensor cores would read in parts (of half
/// types and TF32, not of IEEE f32) get room up to a multiple of 8, where no copy of activations is needed
/// for it: rows and columns of weights, their gradients and optimizer state, and rows of activations. What
/// lies there is zero and stays so; files and losses have the widths that there are. `pinned` as below;
/// `keeps_output`: the network's output is read from memory, as it is.
void pad_widths(model::Graph& graph, const ParameterLayouts& pinned, bool keeps_output);

// view_splits.cpp

/// In front of `assign_layouts`: the parts of a split that lie in one piece, each from a line of memory on,
/// are views of the whole. Where a part is a parameter's gradient or the whole no activation, it stays a
/// copy.
void view_splits(model::Graph& graph);

// layout.cpp

/// Fixes the layout of every value, node by node in order: a kernel chooses layouts of values that have none
/// yet, and a reorder node precedes a kernel that needs another layout than a value has. Inputs and targets
/// are row-major; a parameter takes the layout that its first reader in forward chooses, or the first reader
/// of its copy, but a classifier's the one that the classifier chooses; copy and gradient have the same.
/// `pinned` parameters keep their layouts.
void assign_layouts(model::Graph& graph, const kernels::Device& device, const ParameterLayouts& pinned);

ParameterLayouts parameter_layouts(const model::Graph& graph);

// absorb_copies.cpp

/// Behind `assign_layouts`, on a GPU: the kernel that makes inputs of bytes writes them in the type and the
/// layout that their only reader, a cast or reorder, would give them.
void absorb_copies(model::Graph& graph);

// accumulate.cpp

/// For the micro-batches of a step behind the first: each gradient is computed apart and then added to what
/// the gradient arena holds. Comes behind all choices of layouts and algorithms, so that every micro-batch
/// computes its own gradients alike; the sum goes from the first micro-batch to the last.
void accumulate_gradients(model::Graph& graph);

/// Behind `accumulate_gradients`, for the micro-batches of a step whose gradients are exchanged as `dtype`,
/// narrower than f32: they add up in f32, in memory of their own, and behind the last (`ends_step`) the sum
/// is rounded once, to the gradient.
void sum_gradients_apart(model::Graph& graph, DType dtype, bool ends_step);

// recompute.cpp

/// `--recompute`: the activations of a segment (model::segment) that only the segment itself and backward
/// read are not kept; its nodes run again in front of the first node of backward that reads one. Comes behind
/// layouts and algorithms: a node that runs again is the original in all but its memory, so the bits stay.
/// Kept are also the results of a node that touches a buffer, statistics of all ranks or the control block,
/// which never runs twice, and those much smaller than what they are made of (statistics). UsageError when
/// the model marks no segment.
void recompute(model::Graph& graph);

}  // namespace lockstep::runtime
