#include "kernels/gather_rows.h"

#include <algorithm>
#include <cstring>

#include "data/datasets.h"
#include "data/loader.h"
#include "kernels/base/safetensors.h"
#include "tests/ops/conformance.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::ops {
namespace {

using namespace kernels::test;
using kernels::GatherRows;

using Bytes = std::vector<std::byte>;

/// Bytes that tell one place from another.
Bytes numbered(std::size_t bytes, unsigned seed) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return values;
}

/// A batch of all samples, the last first.
struct Batch {
  Bytes inputs, targets;
};

Batch batch_of(const data::Dataset& set) {
  const std::size_t input = set.spec().input_bytes();
  const std::size_t target = set.spec().target_bytes();
  const auto count = static_cast<std::size_t>(set.size());
  Batch batch{Bytes(count * input), Bytes(count * target)};
  for (std::size_t n = 0; n < count; ++n)
    set.get(set.size() - 1 - static_cast<std::int64_t>(n), 0,
            std::span(batch.inputs).subspan(n * input, input),
            std::span(batch.targets).subspan(n * target, target));
  return batch;
}

Batch made_of(const Bytes& rows, const GatherRows& op, const Bytes& store) {
  const std::int64_t count = std::ssize(rows) / static_cast<std::int64_t>(sizeof(kernels::KeptSample));
  const kernels::Types types{{DType::i64, {count, 2}},
                             {DType::u8, {std::ssize(store) / op.stored_bytes(), op.stored_bytes()}}};
  const kernels::Types made = op.infer(types);
  kernels::KernelIo io;
  for (const auto& type : types) io.inputs.push_back({type.dtype, type.shape, {}});
  for (const auto& type : made) io.outputs.push_back({type.dtype, type.shape, {}});
  const auto samples = upload(rows);
  const auto stored = upload(store);
  const auto inputs = device().allocate(io.outputs[0].bytes());
  const auto targets = device().allocate(io.outputs[1].bytes());
  const std::vector<void*> addresses{samples->data(), stored->data(), inputs->data(), targets->data()};
  const auto stream = device().make_stream();
  kernels::kernel_for(device(), op, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  return {download<std::byte>(*inputs), download<std::byte>(*targets)};
}

}  // namespace

TEST_CASE("gather_rows: of samples that a device keeps those of a file of tensors, to the bit") {
  const auto dtype = GENERATE(DType::f32, DType::bf16, DType::u8, DType::u16, DType::i64);
  const Shape sample = GENERATE(Shape{3, 5}, Shape{1}, Shape{2, 4, 8});
  const bool classes = GENERATE(true, false);
  CAPTURE(name_of(dtype), sample.str(), classes);
  constexpr std::int64_t samples = 11;
  std::vector<std::int64_t> extents{samples};
  extents.insert(extents.end(), sample.begin(), sample.end());
  const Shape inputs(extents);
  const Bytes input_bytes = numbered(bytes_of(dtype, inputs), 1);
  const Shape targets = classes ? Shape{samples} : Shape{samples, 3};
  Bytes target_bytes(classes ? samples * sizeof(std::int64_t) : samples * 3 * sizeof(float));
  for (std::size_t i = 0; i < target_bytes.size(); i += classes ? 8 : 4)
    target_bytes[i] = static_cast<std::byte>(i / 8 % 10);
  const tests::TemporaryFolder folder;
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", dtype, inputs, input_bytes},
      {"targets", classes ? DType::i64 : DType::f32, targets, target_bytes}};
  write_safetensors(folder / "samples.safetensors", tensors);
  const auto set =
      data::open_dataset({.name = "tensors", .data_dir = folder / "samples.safetensors"}, data::Split::train);
  const auto kept = set->as_kept(4);
  REQUIRE(kept != nullptr);
  REQUIRE(kept->kept() == samples);
  const data::SampleSpec& spec = kept->spec();
  CHECK(spec.input_bytes() == sizeof(kernels::KeptSample));
  CHECK(spec.target_bytes() == 0);
  Bytes store((4 + samples) * spec.kept_bytes(), std::byte{0xEE});
  kept->read_kept(0, std::span(store).subspan(4 * spec.kept_bytes()));
  const Batch wanted = batch_of(*set);
  const Batch made = made_of(batch_of(*kept).inputs, *spec.rows, store);
  CHECK(made.inputs == wanted.inputs);
  CHECK(made.targets == wanted.targets);
}

TEST_CASE("gather_rows: a batch that samples do not fill names no others") {
  const tests::TemporaryFolder folder;
  const Bytes numbers = numbered(5 * sizeof(std::int64_t), 1);
  const std::vector<std::int64_t> classes{1, 0, 2, 0, 1};
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {5, 2}, numbers},
      {"targets", DType::i64, {5}, std::as_bytes(std::span(classes))}};
  write_safetensors(folder / "samples.safetensors", tensors);
  const auto set =
      data::open_dataset({.name = "tensors", .data_dir = folder / "samples.safetensors"}, data::Split::train);
  data::Loader loader(set->as_kept(7),
                      [](std::int64_t) {
                        return std::vector<std::int64_t>{0, 1, 2, 3, 4};
                      },
                      {.batch_size = 4, .workers = 0, .first_batch = 1, .epochs = 1});
  const auto batch = loader.next(Deadline::in(Seconds(10)));
  REQUIRE(batch);
  CHECK(batch->info.samples == 1);
  CHECK(batch->info.targets == 1);
  std::vector<std::int64_t> rows(batch->input.size() / sizeof(std::int64_t));
  std::memcpy(rows.data(), batch->input.data(), batch->input.size());
  CHECK(rows == std::vector<std::int64_t>{11, 1, 11, 1, 11, 1, 11, 1});
  loader.release(*batch);
}

}  // namespace lockstep::ops
