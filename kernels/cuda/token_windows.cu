#include "kernels/token_windows.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"

namespace lockstep::kernels {
namespace {

/// A thread a token and its target.
template <class Word>
__global__ void gather_windows(std::int64_t rows, std::int64_t length, bool per_token,
                               const KeptSample* windows, const Word* stored, std::int64_t* inputs,
                               std::int64_t* targets) {
  for (std::int64_t item = first_item(); item < rows * length; item += item_stride()) {
    const std::int64_t n = item / length;
    const std::int64_t at = item - n * length;
    const KeptSample window = windows[n];
    const Word* const tokens = stored + window.first;
    const bool inside = at < window.targets;
    inputs[item] = inside ? static_cast<std::int64_t>(tokens[at]) : padding_token;
    if (per_token) {
      targets[item] = inside ? static_cast<std::int64_t>(tokens[at + 1]) : ignored_target;
    } else if (at == 0) {
      targets[n] = static_cast<std::int64_t>(tokens[window.targets]);
    }
  }
}

}  // namespace

KernelPtr prepare(Cuda, const GatherWindows& op, const KernelIo& io) {
  using Op = GatherWindows;
  const std::int64_t rows = io.inputs[Op::windows].shape[0];
  return with_token_word(static_cast<std::size_t>(op.width), [&]<class Word>(Word) {
    return cuda_kernel(io, [=, s = spread(rows * op.length)](const Addresses& a, cudaStream_t stream) {
      launch(gather_windows<Word>, s.blocks, s.threads, 0, stream, rows, op.length, op.per_token,
             a.in<KeptSample>(Op::windows), a.in<Word>(Op::stored), a.out<std::int64_t>(Op::inputs),
             a.out<std::int64_t>(Op::targets));
    });
  });
}

}  // namespace lockstep::kernels
