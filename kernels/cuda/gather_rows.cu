#include "kernels/gather_rows.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/token_windows.h"

namespace lockstep::kernels {
namespace {

/// Of what is copied, in its words.
struct PartOfRows {
  std::int64_t rows, words;           ///< of the part, in a row
  std::int64_t stored_words, offset;  ///< of a stored sample, and in it
};

template <class Word>
__global__ void gather_rows(PartOfRows p, const KeptSample* samples, const Word* stored, Word* y) {
  for (std::int64_t item = first_item(); item < p.rows * p.words; item += item_stride()) {
    const std::int64_t n = item / p.words;
    y[item] = stored[samples[n].first * p.stored_words + p.offset + item - n * p.words];
  }
}

/// The widest word that rows of so many bytes, one behind the other, consist of.
std::size_t word_bytes(std::int64_t bytes) {
  std::size_t word = 8;
  while (bytes % static_cast<std::int64_t>(word) != 0) word /= 2;
  return word;
}

void gather(const GatherRows& op, std::int64_t rows, GatherRows::Out part, const Addresses& a,
            cudaStream_t stream) {
  using Op = GatherRows;
  const std::int64_t bytes = part == Op::inputs ? op.input_bytes() : op.target_bytes();
  const std::int64_t offset = part == Op::inputs ? 0 : op.target_offset();
  with_token_word(word_bytes(bytes), [&]<class Word>(Word) {
    constexpr std::int64_t width = sizeof(Word);
    const PartOfRows p{rows, bytes / width, op.stored_bytes() / width, offset / width};
    const Spread s = spread(rows * p.words);
    launch(gather_rows<Word>, s.blocks, s.threads, 0, stream, p, a.in<KeptSample>(Op::samples),
           a.in<Word>(Op::stored), a.out<Word>(part));
  });
}

}  // namespace

KernelPtr prepare(Cuda, const GatherRows& op, const KernelIo& io) {
  using Op = GatherRows;
  return cuda_kernel(io,
                     [op, rows = io.inputs[Op::samples].shape[0]](const Addresses& a, cudaStream_t stream) {
                       gather(op, rows, Op::inputs, a, stream);
                       gather(op, rows, Op::targets, a, stream);
                     });
}

}  // namespace lockstep::kernels
