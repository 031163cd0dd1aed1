#include "kernels/classifier.h"

#include "kernels/cuda/portability.h"

#include <optional>

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/classifier_rows.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/loss_rows.h"
#include "kernels/cuda/marked_kernel.h"

namespace lockstep::kernels {
namespace {

using Op = ClassifierLoss;

constexpr int block = 256;

struct Rows {
  std::int64_t count, of_sample, first;  ///< first: of a chunk
  std::int64_t stride;                   ///< elements from one row's logits to the next one's
};

/// A block to a row: logits become their gradient, in place. Columns behind the classes are products with
/// rows of zeros, and so are their own gradient.
template <class Element>
__global__ void losses_of_chunk(CrossEntropy loss_of, Rows rows, bool has_gradient,
                                const std::int64_t* targets, const StepState* state, Element* logits,
                                RowLoss* losses) {
  const std::int64_t row = rows.first + blockIdx.x;
  Element* const x = logits + blockIdx.x * rows.stride;
  Element* const gradient = has_gradient ? x : nullptr;
  RowLoss loss{0, 0, 0, 0};
  if (row < state->valid_samples * rows.of_sample && loss_of.counts(targets + row)) {
    loss = loss_of.run<block>(static_cast<const Element*>(x), targets + row, gradient,
                              state->loss_scale * state->scaler_scale);
  } else if (has_gradient) {
    for (std::int64_t k = threadIdx.x; k < loss_of.columns; k += block) x[k] = narrow<Element>(0);
  }
  if (threadIdx.x == 0) losses[row] = loss;
}

/// The same of half types, for rows that fit the block's shared memory.
template <class Half>
__global__ void losses_of_kept_rows(CrossEntropy loss_of, Rows rows, bool has_gradient,
                                    const std::int64_t* targets, const StepState* state, Half* logits,
                                    RowLoss* losses) {
  DYNAMIC_SHARED(Half, kept);
  const std::int64_t row = rows.first + blockIdx.x;
  Half* const x = logits + blockIdx.x * rows.stride;
  const KeptRow<Half> mine{kept, loss_of.columns, rows.stride};
  RowLoss loss{0, 0, 0, 0};
  const bool counts = row < state->valid_samples * rows.of_sample && loss_of.counts(targets + row);
  const std::int64_t target = counts ? targets[row] : 0;
  const bool is_class = target >= 0 && target < loss_of.columns;
  if (counts && is_class) {
    const float hit = widen(x[target]);
    mine.read(x);
    loss = loss_of_kept_row(loss_of, mine, hit, target, has_gradient ? x : nullptr,
                            state->loss_scale * state->scaler_scale);
  } else {
    if (!is_class) loss = {NAN, 0, 0, 1};
    if (has_gradient) mine.clear(x);
  }
  if (threadIdx.x == 0) losses[row] = loss;
}

using GemmPtr = std::shared_ptr<const Gemm>;

/// From one row's logits to the next one's. In half types each row begins at 16 bytes, or products and
/// kernels would take them by the element.
std::int64_t stride_of(DType dtype, std::int64_t classes) {
  return is_half(dtype) ? rounded_up(classes, kept_lanes) : classes;
}

/// The products of a chunk. Its logits and their gradient have the type of the factors, as with
/// torch.autocast.
struct Chunk {
  std::int64_t first, rows;
  GemmPtr logits, dx, dweight;
  std::optional<BiasGradient> dbias;

  Chunk(Cuda cuda, const Op& op, const MatmulSize& size, DType dtype, bool bias, std::int64_t begin,
        std::int64_t end)
      : first(begin), rows(end - begin) {
    const Precision precision = gpu_precision(op.precision);
    const std::int64_t stride = stride_of(dtype, size.outputs);
    logits = prepare_gemm({.m = rows,
                           .n = size.outputs,
                           .k = size.inputs,
                           .transpose_b = true,
                           .epilogue = bias ? GemmSpec::Epilogue::bias : GemmSpec::Epilogue::none,
                           .dtype = dtype,
                           .result = dtype,
                           .precision = precision,
                           .stride_c = stride},
                          cuda.described);
    if (!op.has_gradient) return;
    dx = prepare_gemm({.m = rows,
                       .n = size.inputs,
                       .k = size.outputs,
                       .dtype = dtype,
                       .result = dtype,
                       .precision = precision,
                       .stride_a = stride},
                      cuda.described);
    dweight = prepare_gemm({.m = size.outputs,
                            .n = size.inputs,
                            .k = rows,
                            .transpose_a = true,
                            .accumulate = begin > 0,
                            .dtype = dtype,
                            .result = DType::f32,
                            .precision = precision,
                            .stride_a = stride},
                           cuda.described);
    if (!bias) return;
    const Layout layout = Layout::row_major({rows, stride});
    dbias.emplace(TensorDesc{dtype, {rows, size.outputs}, layout}, DType::f32);
  }

  std::size_t workspace_bytes() const {
    std::size_t most = dbias ? dbias->workspace_bytes() : 0;
    most = std::max(most, logits->workspace_bytes());
    for (const GemmPtr& gemm : {dx, dweight}) {
      if (gemm != nullptr) most = std::max(most, gemm->workspace_bytes());
    }
    return most;
  }
};

/// All chunks but the first and the last are alike: the second stands for them.
std::vector<Chunk> chunks_of(Cuda cuda, const Op& op, const MatmulSize& size, DType dtype, bool bias) {
  const auto row_bytes = stride_of(dtype, size.outputs) * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t most =
      op.chunk > 0 ? op.chunk : std::max<std::int64_t>(32, Op::gpu_chunk_bytes / row_bytes);
  const std::int64_t chunk = equal_parts(size.rows, most);
  std::vector<Chunk> chunks;
  for (std::int64_t begin = 0; begin < size.rows; begin += chunk) {
    const std::int64_t end = std::min(size.rows, begin + chunk);
    if (chunks.size() > 1 && end - begin == chunks.back().rows) {
      Chunk again = chunks.back();
      again.first = begin;
      chunks.push_back(again);
    } else {
      chunks.emplace_back(cuda, op, size, dtype, bias, begin, end);
    }
  }
  return chunks;
}

std::size_t most_workspace(const std::vector<Chunk>& chunks) {
  std::size_t most = 0;
  for (const Chunk& chunk : chunks) most = std::max(most, chunk.workspace_bytes());
  return most;
}

/// As many outputs as the weights have rows, those of zeros too.
MatmulSize product_size(const KernelIo& io) {
  MatmulSize size = matmul_size(io.inputs[Op::x].shape, io.inputs[Op::weight].shape);
  const auto require_same_rows = [&](const TensorDesc& desc) {
    if (desc.layout_or_row_major().padded[0] == io.inputs[Op::weight].layout_or_row_major().padded[0]) return;
    throw UsageError("classifier_loss: weights, bias and their gradients must have as many rows in memory");
  };
  if (io.inputs.size() > Op::bias) require_same_rows(io.inputs[Op::bias]);
  for (std::size_t out = Op::dweight; out < io.outputs.size(); ++out) require_same_rows(io.outputs[out]);
  size.outputs = io.inputs[Op::weight].layout_or_row_major().padded[0];
  return size;
}

/// How a chunk's rows are gone over.
template <class Element>
struct RowsLaunch {
  void (*kernel)(CrossEntropy, Rows, bool, const std::int64_t*, const StepState*, Element*, RowLoss*);
  int threads;
  std::size_t shared;

  RowsLaunch(Cuda cuda, std::int64_t stride) : kernel(losses_of_chunk<Element>), threads(block), shared(0) {
    if constexpr (sizeof(Element) == 2) {
      const auto row = stride * std::int64_t{sizeof(Element)};
      const std::int64_t most = most_kept_bytes(cuda.capability);
      if (row > most) return;
      kernel = losses_of_kept_rows<Element>;
      threads = kept_block;
      shared = static_cast<std::size_t>(row);
      if (cuda.described != nullptr) return;
      // As much as there is: kernels for shorter rows must not take it from those for longer ones.
      check(cudaFuncSetAttribute(losses_of_kept_rows<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(most)),
            "cannot have the shared memory that a row of logits takes");
    }
  }
  bool keeps() const { return shared > 0; }
};

/// Workspace: the losses of all rows, the logits of a chunk, then the products' and the bias gradient's.
template <class Element>
KernelPtr classifier_kernel(Cuda cuda, const Op& op, const KernelIo& io) {
  const MatmulSize size = product_size(io);
  const std::int64_t classes = io.inputs[Op::weight].shape[0];
  const std::int64_t of_sample = io.inputs[Op::x].shape.rank() == 3 ? io.inputs[Op::x].shape[1] : 1;
  const bool bias = io.inputs.size() > Op::bias;
  const std::vector<Chunk> chunks = chunks_of(cuda, op, size, io.inputs[Op::x].dtype, bias);
  const std::int64_t most_rows = chunks.empty() ? 0 : chunks.front().rows;
  const std::int64_t stride = stride_of(io.inputs[Op::x].dtype, size.outputs);
  const std::size_t logits_at = whole_lines(static_cast<std::size_t>(size.rows) * sizeof(RowLoss));
  const std::size_t products_at = rounded_up(
      logits_at + static_cast<std::size_t>(most_rows * stride) * sizeof(Element), workspace_alignment);
  const CrossEntropy loss_of{classes, op.label_smoothing, 1 - op.label_smoothing};
  const bool has_gradient = op.has_gradient;
  const RowsLaunch<Element> over_rows(cuda, stride);
  const auto run = [=](const Addresses& a, cudaStream_t stream) {
    auto* const losses = a.workspace<RowLoss>();
    auto* const logits = reinterpret_cast<Element*>(a.workspace<std::byte>() + logits_at);
    void* const products = a.workspace<std::byte>() + products_at;
    const auto* const state = a.in<StepState>(Op::state);
    for (const Chunk& chunk : chunks) {
      const Element* const x = a.in<Element>(Op::x) + chunk.first * size.inputs;
      chunk.logits->launch({x, a.in<void>(Op::weight), logits, const_cast<void*>(a.in<void>(Op::bias))},
                           products, stream);
      launch(over_rows.kernel, static_cast<unsigned>(chunk.rows), over_rows.threads, over_rows.shared, stream,
             loss_of, Rows{size.rows, of_sample, chunk.first, stride}, has_gradient,
             a.in<std::int64_t>(Op::targets), state, logits, losses);
      if (!has_gradient) continue;
      chunk.dx->launch({logits, a.in<void>(Op::weight), a.out<Element>(Op::dx) + chunk.first * size.inputs},
                       products, stream);
      chunk.dweight->launch({logits, x, a.out(Op::dweight)}, products, stream);
      if (chunk.dbias) chunk.dbias->launch(logits, a.out(Op::dbias), products, stream, chunk.first > 0);
    }
    launch_account(size.rows, losses, state, a.out<ControlBlock>(Op::control), stream);
  };
  const std::size_t workspace = products_at + most_workspace(chunks);
  return over_rows.keeps() ? marked_kernel<KeepsLogits>(io, run, workspace) : cuda_kernel(io, run, workspace);
}

}  // namespace

void choose_layouts(Cuda, const ClassifierLoss& op, KernelIo& io) {
  TensorDesc& weight = io.inputs[Op::weight];
  const bool tensor_cores = weight.dtype != DType::f32 || gpu_precision(op.precision) == Precision::tf32;
  if (!weight.layout && tensor_cores) {
    const std::int64_t rows = rounded_up(weight.shape[0], Op::gpu_vocabulary);
    weight.layout = Layout::row_major_up_to(rows, weight.shape);
  }
  all_row_major(io);
  const std::int64_t rows = weight.layout->padded[0];
  if (io.inputs.size() > Op::bias)
    io.inputs[Op::bias].layout = Layout::row_major_up_to(rows, io.inputs[Op::bias].shape);
  for (std::size_t out = Op::dweight; out < io.outputs.size(); ++out)
    io.outputs[out].layout = Layout::row_major_up_to(rows, io.outputs[out].shape);
}

KernelPtr prepare(Cuda cuda, const ClassifierLoss& op, const KernelIo& io) {
  return with_element(io.inputs[Op::x].dtype,
                      [&]<class Element>(Element*) { return classifier_kernel<Element>(cuda, op, io); });
}

}  // namespace lockstep::kernels
