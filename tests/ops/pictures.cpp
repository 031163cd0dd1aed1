#include "kernels/pictures.h"

#include <cstring>

#include "data/picture_dataset.h"
#include "kernels/base/half.h"
#include "tests/ops/conformance.h"
#include "tests/unit/data/formula_picture.h"

namespace lockstep::ops {
namespace {

using namespace kernels::test;
using kernels::PicturesToFloats;

constexpr data::PictureSize size{20, 16};

/// Pictures that differ.
class Pictures final : public data::PictureSet {
 public:
  explicit Pictures(int channels) : channels_(channels) {}
  std::int64_t size() const override { return 7; }
  int channels() const override { return channels_; }
  std::int64_t num_classes() const override { return 10; }
  std::optional<data::PictureSize> picture_size() const override { return ops::size; }
  std::int64_t label(std::int64_t index) const override { return index; }
  std::unique_ptr<data::PictureReader> open(std::int64_t index) const override {
    data::Picture picture = data::testing::formula_picture(ops::size, channels_);
    std::swap_ranges(picture.row(0), picture.row(0) + index, picture.row(3));
    return std::make_unique<data::PictureInMemory>(std::move(picture));
  }

 private:
  int channels_;
};

/// All samples of two epochs, side by side.
std::vector<std::byte> batch_of(const data::Dataset& set) {
  const std::size_t bytes = set.spec().input_bytes();
  std::vector<std::byte> batch(2 * static_cast<std::size_t>(set.size()) * bytes);
  std::int64_t target = -1;
  for (std::int64_t n = 0; n < 2 * set.size(); ++n) {
    set.get(n % set.size(), n / set.size(),
            std::span(batch).subspan(static_cast<std::size_t>(n) * bytes, bytes),
            std::as_writable_bytes(std::span(&target, 1)));
    REQUIRE(target == n % set.size());
  }
  return batch;
}

Values floats_of(const std::vector<std::byte>& batch, const Shape& shape) {
  std::vector<float> floats(batch.size() / sizeof(float));
  std::memcpy(floats.data(), batch.data(), batch.size());
  return {shape, {floats.begin(), floats.end()}};
}

/// What the kernel makes of the rows.
Values made_of(const std::vector<std::byte>& rows, PicturesToFloats op, const kernels::Layout& layout) {
  const auto samples = std::ssize(rows) / op.row_bytes();
  const Shape shape{samples, op.picture[0], op.picture[1], op.picture[2]};
  const kernels::KernelIo io{.inputs = {{DType::u8, {samples, op.row_bytes()}, {}}},
                             .outputs = {{op.to, shape, layout}}};
  const auto y = device().allocate(io.outputs[0].bytes());
  const auto x = upload(rows);
  const auto stream = device().make_stream();
  void* const addresses[] = {x->data(), y->data()};
  kernels::kernel_for(device(), op, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  return unpack(*y, shape, layout, op.to);
}

}  // namespace

TEST_CASE("pictures_to_floats: of bytes the floats that the data set makes itself, to the bit") {
  const int channels = GENERATE(1, 3);
  const std::string list =
      GENERATE("", "flip", "pad-crop=4,flip,normalise=0.5/0.25", "crop=30x13,pad-crop=2",
               "resize=9x23,flip,normalise=0.1307/0.3081", "random-resized-crop=11,flip");
  CAPTURE(channels, list);
  const auto set = data::with_transform(std::make_shared<Pictures>(channels), {.seed = 3, .transform = list},
                                        data::Split::train);
  const auto as_bytes = set->as_bytes();
  REQUIRE(as_bytes != nullptr);
  PicturesToFloats op = *as_bytes->spec().pictures;
  REQUIRE(as_bytes->spec().input_bytes() == static_cast<std::size_t>(op.row_bytes()));
  const std::vector<std::byte> rows = batch_of(*as_bytes);
  const Shape shape{14, op.picture[0], op.picture[1], op.picture[2]};
  const Values wanted = floats_of(batch_of(*set), shape);
  require_close(made_of(rows, op, kernels::Layout::row_major(shape)), wanted, 0);
  if (device().kind() == kernels::DeviceKind::cpu) return;  // which converts in steps of its own
  require_close(made_of(rows, op, kernels::channels_last(shape)), wanted, 0);
  op.to = DType::bf16;
  Values rounded = wanted;
  for (double& value : rounded.data) {
    BFloat16 half;
    narrow(static_cast<float>(value), half);
    value = widen(half);
  }
  require_close(made_of(rows, op, kernels::channels_last(shape)), rounded, 0);
}

}  // namespace lockstep::ops
