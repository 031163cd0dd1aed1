#include "kernels/classifier.h"

#include "kernels/cuda/portability.h"

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/loss_rows.h"

namespace lockstep::kernels {
namespace {

using Op = ClassifierLoss;

constexpr int block = 256;

struct Rows {
  std::int64_t count, of_sample, first;  ///< first: of a chunk
};

/// A block to a row of `width` columns: logits become their gradient, in place. Those behind the classes are
/// products with zeros, and so are their own gradient.
template <class Element>
__global__ void losses_of_chunk(CrossEntropy loss_of, std::int64_t width, Rows rows, bool has_gradient,
                                const std::int64_t* targets, const StepState* state, Element* logits,
                                RowLoss* losses) {
  const std::int64_t row = rows.first + blockIdx.x;
  Element* const x = logits + blockIdx.x * width;
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

/// A thread to a column, rows in their order.
template <class Element>
__global__ void add_bias_gradient(std::int64_t rows, std::int64_t width, bool accumulate,
                                  const Element* gradient, float* dbias) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * block + threadIdx.x;
  if (k >= width) return;
  float total = accumulate ? dbias[k] : 0;
  for (std::int64_t row = 0; row < rows; ++row) total += widen(gradient[row * width + k]);
  dbias[k] = total;
}

using GemmPtr = std::shared_ptr<const Gemm>;

/// The products of a chunk. Its logits and their gradient have the type of the factors, as with
/// torch.autocast.
struct Chunk {
  std::int64_t first, rows;
  GemmPtr logits, dx, dweight;

  Chunk(Cuda cuda, const Op& op, const MatmulSize& size, DType dtype, bool bias, std::int64_t begin,
        std::int64_t end)
      : first(begin), rows(end - begin) {
    const Precision precision = gpu_precision(op.precision);
    logits = prepare_gemm({.m = rows,
                           .n = size.outputs,
                           .k = size.inputs,
                           .transpose_b = true,
                           .epilogue = bias ? GemmSpec::Epilogue::bias : GemmSpec::Epilogue::none,
                           .dtype = dtype,
                           .result = dtype,
                           .precision = precision},
                          cuda.described);
    if (!op.has_gradient) return;
    dx = prepare_gemm({.m = rows,
                       .n = size.inputs,
                       .k = size.outputs,
                       .dtype = dtype,
                       .result = dtype,
                       .precision = precision},
                      cuda.described);
    dweight = prepare_gemm({.m = size.outputs,
                            .n = size.inputs,
                            .k = rows,
                            .transpose_a = true,
                            .accumulate = begin > 0,
                            .dtype = dtype,
                            .result = DType::f32,
                            .precision = precision},
                           cuda.described);
  }

  std::size_t workspace_bytes() const {
    std::size_t most = logits->workspace_bytes();
    for (const GemmPtr& gemm : {dx, dweight}) {
      if (gemm != nullptr) most = std::max(most, gemm->workspace_bytes());
    }
    return most;
  }
};

/// All chunks but the first and the last are alike: the second stands for them.
std::vector<Chunk> chunks_of(Cuda cuda, const Op& op, const MatmulSize& size, DType dtype, bool bias) {
  const auto row_bytes = size.outputs * static_cast<std::int64_t>(size_of(dtype));
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

/// Workspace: the losses of all rows, the logits of a chunk, then the products'.
template <class Element>
KernelPtr classifier_kernel(Cuda cuda, const Op& op, const KernelIo& io) {
  const MatmulSize size = product_size(io);
  const std::int64_t classes = io.inputs[Op::weight].shape[0];
  const std::int64_t of_sample = io.inputs[Op::x].shape.rank() == 3 ? io.inputs[Op::x].shape[1] : 1;
  const bool bias = io.inputs.size() > Op::bias;
  const std::vector<Chunk> chunks = chunks_of(cuda, op, size, io.inputs[Op::x].dtype, bias);
  const std::int64_t most_rows = chunks.empty() ? 0 : chunks.front().rows;
  const std::size_t logits_at = whole_lines(static_cast<std::size_t>(size.rows) * sizeof(RowLoss));
  const std::size_t products_at =
      logits_at + whole_lines(static_cast<std::size_t>(most_rows * size.outputs) * sizeof(Element));
  const CrossEntropy loss_of{classes, op.label_smoothing, 1 - op.label_smoothing};
  const bool has_gradient = op.has_gradient;
  const auto run = [=](const Addresses& a, cudaStream_t stream) {
    auto* const losses = a.workspace<RowLoss>();
    auto* const logits = reinterpret_cast<Element*>(a.workspace<std::byte>() + logits_at);
    void* const products = a.workspace<std::byte>() + products_at;
    const auto* const state = a.in<StepState>(Op::state);
    for (const Chunk& chunk : chunks) {
      const Element* const x = a.in<Element>(Op::x) + chunk.first * size.inputs;
      chunk.logits->launch({x, a.in<void>(Op::weight), logits, const_cast<void*>(a.in<void>(Op::bias))},
                           products, stream);
      launch(losses_of_chunk<Element>, static_cast<unsigned>(chunk.rows), block, 0, stream, loss_of,
             size.outputs, Rows{size.rows, of_sample, chunk.first}, has_gradient,
             a.in<std::int64_t>(Op::targets), state, logits, losses);
      if (!has_gradient) continue;
      chunk.dx->launch({logits, a.in<void>(Op::weight), a.out<Element>(Op::dx) + chunk.first * size.inputs},
                       products, stream);
      chunk.dweight->launch({logits, x, a.out(Op::dweight)}, products, stream);
      if (!bias) continue;
      launch(add_bias_gradient<Element>, static_cast<unsigned>((size.outputs + block - 1) / block), block, 0,
             stream, chunk.rows, size.outputs, chunk.first > 0, static_cast<const Element*>(logits),
             a.out(Op::dbias));
    }
    launch_account(size.rows, losses, state, a.out<ControlBlock>(Op::control), stream);
  };
  return cuda_kernel(io, run, products_at + most_workspace(chunks));
}

}  // namespace

void choose_layouts(Cuda, const ClassifierLoss& op, KernelIo& io) {
  TensorDesc& weight = io.inputs[Op::weight];
  const bool tensor_cores = weight.dtype != DType::f32 || gpu_precision(op.precision) == Precision::tf32;
  if (!weight.layout && tensor_cores) {
    const std::int64_t rows =
        (weight.shape[0] + Op::gpu_vocabulary - 1) / Op::gpu_vocabulary * Op::gpu_vocabulary;
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
