#include "kernels/token_windows.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/embedding.h"
#include "kernels/loss.h"

// A run on a CPU reads windows where the data set has them: this is for plans of GPUs that are tried here.
namespace lockstep::kernels {
namespace {

template <class Word>
void write_window(const GatherWindows& op, const KeptSample& window, const Word* stored, std::int64_t* inputs,
                  std::int64_t* targets) {
  const Word* const tokens = stored + window.first;
  std::copy_n(tokens, window.targets, inputs);
  std::fill(inputs + window.targets, inputs + op.length, padding_token);
  if (!op.per_token) {
    *targets = static_cast<std::int64_t>(tokens[window.targets]);
    return;
  }
  std::copy_n(tokens + 1, window.targets, targets);
  std::fill(targets + window.targets, targets + op.length, ignored_target);
}

}  // namespace

KernelPtr prepare(Cpu, const GatherWindows& op, const KernelIo& io) {
  using Op = GatherWindows;
  return with_token_word(static_cast<std::size_t>(op.width), [&]<class Word>(Word) {
    return cpu_kernel(io, [op, rows = io.inputs[Op::windows].shape[0]](const Addresses& a) {
      const auto* const windows = a.in<KeptSample>(Op::windows);
      const std::int64_t step = op.per_token ? op.length : 1;  // of targets
      parallel_ranges(rows, rows * op.length, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n)
          write_window(op, windows[n], a.in<Word>(Op::stored),
                       a.out<std::int64_t>(Op::inputs) + n * op.length,
                       a.out<std::int64_t>(Op::targets) + n * step);
      });
    });
  });
}

}  // namespace lockstep::kernels
