#include "kernels/pictures.h"

#include <cstring>

#include "data/pictures/picture_dataset.h"
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

/// What a device keeps of the set, behind `first` pictures of others.
std::vector<std::byte> store_of(const data::Dataset& set, std::int64_t first) {
  const std::size_t bytes = set.spec().kept_bytes();
  std::vector<std::byte> store(static_cast<std::size_t>(first + set.kept()) * bytes);
  set.read_kept(0, std::span(store).subspan(static_cast<std::size_t>(first) * bytes));
  return store;
}

/// What the kernel makes of the rows, and of what is stored.
Values made_of(const std::vector<std::byte>& rows, const PicturesToFloats& op, const kernels::Layout& layout,
               const std::vector<std::byte>& store = {}) {
  const auto samples = std::ssize(rows) / op.row_bytes();
  const Shape shape{samples, op.picture[0], op.picture[1], op.picture[2]};
  kernels::KernelIo io{.inputs = {{DType::u8, {samples, op.row_bytes()}, {}}},
                       .outputs = {{op.to, shape, layout}}};
  if (op.has_store())
    io.inputs.push_back({DType::u8, {std::ssize(store) / op.stored_bytes(), op.stored_bytes()}, {}});
  const auto y = device().allocate(io.outputs[0].bytes());
  const auto x = upload(rows);
  const auto stream = device().make_stream();
  const auto stored = op.has_store() ? upload(store) : nullptr;
  std::vector<void*> addresses{x->data()};
  if (stored != nullptr) addresses.push_back(stored->data());
  addresses.push_back(y->data());
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
  if (device().is_cpu()) return;  // which converts in steps of its own
  require_close(made_of(rows, op, kernels::channels_last(shape)), wanted, 0);
  op.to = DType::bf16;
  Values rounded = wanted;
  for (double& value : rounded.data) {
    BFloat16 half;
    narrow(static_cast<float>(value), half);
    value = widen(half);
  }
  require_close(made_of(rows, op, kernels::channels_last(shape)), rounded, 0);
  if (channels == 3)
    require_close(made_of(rows, op, kernels::channels_last({shape[0], 8, shape[2], shape[3]})), rounded, 0);
}

TEST_CASE("pictures_to_floats: of pictures that a device keeps the same, by what each row says") {
  const int channels = GENERATE(1, 3);
  const std::string list =
      GENERATE("", "flip,crop=11x7", "pad-crop=4,flip,normalise=0.5/0.25", "crop=30x13,flip,pad-crop=2,flip",
               "crop=8,pad-crop=3,flip", "crop=40,crop=4x38");
  CAPTURE(channels, list);
  const auto set = data::with_transform(std::make_shared<Pictures>(channels), {.seed = 3, .transform = list},
                                        data::Split::train);
  const auto cuts = set->as_kept(5);
  REQUIRE(cuts != nullptr);
  const PicturesToFloats op = *cuts->spec().pictures;
  CHECK(op.row_bytes() == sizeof(kernels::PictureCut));
  const Shape shape{14, op.picture[0], op.picture[1], op.picture[2]};
  const Values wanted = floats_of(batch_of(*set), shape);
  require_close(made_of(batch_of(*cuts), op, kernels::Layout::row_major(shape), store_of(*cuts, 5)), wanted,
                0);
}

TEST_CASE("pictures_to_floats: what is resized, or may be passed over, is not kept on a device") {
  const auto pictures = std::make_shared<Pictures>(3);
  for (const std::string list : {"resize=9x23", "random-resized-crop=11,flip"}) {
    CHECK(data::with_transform(pictures, {.transform = list}, data::Split::train)->as_kept(0) == nullptr);
  }
  CHECK(data::with_transform(pictures, {.skip_corrupt = true}, data::Split::train)->as_kept(0) == nullptr);
}

}  // namespace lockstep::ops
