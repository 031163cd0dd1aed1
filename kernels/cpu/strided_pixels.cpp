#include "kernels/cpu/strided_pixels.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/base/alignment.h"
#include "kernels/base/half.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels {
namespace {

class Pixels {
 public:
  explicit Pixels(const StridedPixels& of) : of_(of) {}

  std::size_t bytes() const { return bytes_of(of_.y[0] * of_.y[2] * of_.y[3]); }

  void gather(const std::byte* x, std::byte* pixels) const {
    const std::int64_t rows = of_.y[0] * of_.y[2];
    parallel_ranges(rows, rows * of_.y[3] * of_.x[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t line = row / of_.y[2] * of_.x[2] + row % of_.y[2] * of_.stride[0];
        for (std::int64_t column = 0; column < of_.y[3]; ++column) {
          std::memcpy(pixels + bytes_of(row * of_.y[3] + column),
                      x + bytes_of(line * of_.x[3] + column * of_.stride[1]), bytes_of(1));
        }
      }
    });
  }

  void scatter(const std::byte* pixels, std::byte* x) const {
    const std::int64_t rows = of_.x[0] * of_.x[2];
    parallel_ranges(rows, rows * of_.x[3] * of_.x[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::byte* const line = x + bytes_of(row * of_.x[3]);
        const std::int64_t height = row % of_.x[2];
        if (height % of_.stride[0] != 0 || height / of_.stride[0] >= of_.y[2]) {
          std::memset(line, 0, bytes_of(of_.x[3]));
        } else {
          const std::int64_t met = row / of_.x[2] * of_.y[2] + height / of_.stride[0];
          scatter_line(pixels + bytes_of(met * of_.y[3]), line);
        }
      }
    });
  }

 private:
  std::size_t bytes_of(std::int64_t pixels) const {
    return static_cast<std::size_t>(pixels * of_.x[1]) * sizeof(BFloat16);
  }

  void scatter_line(const std::byte* pixels, std::byte* line) const {
    std::int64_t at = 0;
    for (std::int64_t column = 0; column < of_.y[3]; ++column) {
      std::memcpy(line + bytes_of(at), pixels + bytes_of(column), bytes_of(1));
      const std::int64_t next = column + 1 < of_.y[3] ? at + of_.stride[1] : of_.x[3];
      std::memset(line + bytes_of(at + 1), 0, bytes_of(next - at - 1));
      at = next;
    }
  }

  StridedPixels of_;
};

/// A kernel with an operand in the workspace.
class PackedOperand final : public Kernel {
 public:
  enum class Way { gathered, scattered };

  PackedOperand(Way way, const Pixels& pixels, std::size_t index, KernelPtr kernel)
      : way_(way), pixels_(pixels), index_(index), kernel_(std::move(kernel)) {}

  std::size_t workspace_bytes() const override {
    return whole_lines(pixels_.bytes()) + kernel_->workspace_bytes();
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    auto* const packed = static_cast<std::byte*>(workspace);
    std::vector<void*> operands(args.begin(), args.end());
    operands[index_] = packed;
    return std::make_unique<Bound>(way_, pixels_, static_cast<std::byte*>(args[index_]), packed,
                                   kernel_->bind(operands, packed + whole_lines(pixels_.bytes())));
  }

 private:
  class Bound final : public BoundKernel {
   public:
    Bound(Way way, const Pixels& pixels, std::byte* x, std::byte* packed, std::unique_ptr<BoundKernel> kernel)
        : way_(way), pixels_(pixels), x_(x), packed_(packed), kernel_(std::move(kernel)) {}

    void launch(Stream& stream) override {
      if (way_ == Way::gathered) pixels_.gather(x_, packed_);
      kernel_->launch(stream);
      if (way_ == Way::scattered) pixels_.scatter(packed_, x_);
    }

   private:
    Way way_;
    Pixels pixels_;
    std::byte* x_;
    std::byte* packed_;
    std::unique_ptr<BoundKernel> kernel_;
  };

  Way way_;
  Pixels pixels_;
  std::size_t index_;
  KernelPtr kernel_;
};

}  // namespace

TensorDesc StridedPixels::desc() const {
  const Shape shape{y[0], x[1], y[2], y[3]};
  return {DType::bf16, shape, channels_last(shape)};
}

KernelPtr with_gathered(const StridedPixels& pixels, std::size_t index, KernelPtr kernel) {
  if (pixels.are_all()) return kernel;
  return std::make_unique<PackedOperand>(PackedOperand::Way::gathered, Pixels(pixels), index,
                                         std::move(kernel));
}

KernelPtr with_scattered(const StridedPixels& pixels, std::size_t index, KernelPtr kernel) {
  return std::make_unique<PackedOperand>(PackedOperand::Way::scattered, Pixels(pixels), index,
                                         std::move(kernel));
}

}  // namespace lockstep::kernels
