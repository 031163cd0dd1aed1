#include "kernels/pictures.h"

#include <cstring>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

// The data sets themselves make floats for a CPU, as they read pixels: this is for plans of GPUs that are
// tried here.
namespace lockstep::kernels {
namespace {

/// Channel `c` of the sample.
void write_plane(const PicturesToFloats& op, const PictureCut& cut, const std::uint8_t* picture,
                 std::size_t c, float* y) {
  const auto channel = static_cast<std::int64_t>(c);
  const std::int64_t width = op.picture[2];
  for (std::int64_t i = 0; i < op.picture[1] * width; ++i) {
    const std::int64_t row = cut.row + i / width;
    const std::int64_t column = cut.column + (cut.mirrored != 0 ? width - 1 - i % width : i % width);
    const bool inside =
        row >= cut.first_row && row < cut.end_row && column >= cut.first_column && column < cut.end_column;
    const int value = inside ? picture[(row * op.source_width() + column) * op.picture[0] + channel] : 0;
    y[i] = (static_cast<float>(value) / 255.0F - op.mean[c]) / op.deviation[c];
  }
}

}  // namespace

void choose_layouts(Cpu, const PicturesToFloats&, KernelIo& io) {
  all_row_major(io);
}

KernelPtr prepare(Cpu, const PicturesToFloats& op, const KernelIo& io) {
  using Op = PicturesToFloats;
  if (op.to != DType::f32) throw UsageError("a CPU casts what it has made in f32");
  const Shape& rows = io.inputs[Op::rows].shape;
  const std::int64_t plane = op.picture[1] * op.picture[2];
  return cpu_kernel(io, [=, samples = rows[0], row_bytes = rows[1]](const Addresses& a) {
    const auto* const stored = a.in<std::uint8_t>(Op::stored);
    parallel_ranges(samples, samples * plane, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::uint8_t* const row = a.in<std::uint8_t>(Op::rows) + n * row_bytes;
        PictureCut cut;
        std::memcpy(&cut, row, sizeof cut);
        const std::uint8_t* const picture =
            stored == nullptr ? row + sizeof cut : stored + cut.stored * op.stored_bytes();
        for (std::int64_t c = 0; c < op.picture[0]; ++c)
          write_plane(op, cut, picture, static_cast<std::size_t>(c),
                      a.out(Op::y) + (n * op.picture[0] + c) * plane);
      }
    });
  });
}

}  // namespace lockstep::kernels
