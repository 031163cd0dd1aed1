#include "kernels/token_windows.h"

#include <algorithm>
#include <cstring>

#include "data/text/windows.h"
#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

using namespace kernels::test;
using data::TokenPiece;
using data::WindowRule;
using kernels::GatherWindows;

constexpr std::int64_t length = 5;

/// Tokens that differ, of which the greatest fill their width.
TokenPiece piece(std::size_t width, std::int64_t tokens, std::int64_t first) {
  const auto bytes = std::make_shared<std::vector<std::byte>>();
  for (std::int64_t i = first; i < first + tokens; ++i) {
    const std::uint64_t token = i % 3 == 0 ? (std::uint64_t{1} << std::min<std::size_t>(8 * width - 1, 62)) +
                                                 static_cast<std::uint64_t>(i)
                                           : static_cast<std::uint64_t>(i);
    const auto* const begin = reinterpret_cast<const std::byte*>(&token);
    bytes->insert(bytes->end(), begin, begin + width);
  }
  return {
      .tokens = data::TokenSpan(*bytes, width), .owner = bytes, .documents = {{0, 7}, {7, 9}, {8, tokens}}};
}

/// Of several pieces, one of which is empty, one shorter than a window.
data::DatasetPtr windows_of(std::size_t width, WindowRule::Kind kind, bool per_token) {
  std::vector<TokenPiece> pieces{piece(width, 23, 1), piece(width, 4, 60), piece(width, 17, 70)};
  pieces.insert(pieces.begin() + 1, TokenPiece{.tokens = data::TokenSpan({}, width), .owner = nullptr});
  pieces[2].documents = {{0, 4}};
  return data::make_windows(std::move(pieces), {.kind = kind}, data::window_spec(length, per_token, 1 << 20),
                            3, "a test");
}

/// What the samples of two epochs bring, inputs and targets each side by side.
struct Rows {
  std::vector<std::int64_t> inputs, targets;
  std::int64_t count = 0;
};

Rows rows_of(const data::Dataset& set) {
  const std::size_t input = set.spec().input_bytes();
  const std::size_t target = set.spec().target_bytes();
  Rows rows{.count = 2 * set.size()};
  rows.inputs.resize(static_cast<std::size_t>(rows.count) * input / sizeof(std::int64_t));
  rows.targets.resize(static_cast<std::size_t>(rows.count) * target / sizeof(std::int64_t));
  for (std::int64_t n = 0; n < rows.count; ++n) {
    const auto at = static_cast<std::size_t>(n);
    set.get(n % set.size(), n / set.size(),
            std::as_writable_bytes(std::span(rows.inputs)).subspan(at * input, input),
            std::as_writable_bytes(std::span(rows.targets)).subspan(at * target, target));
  }
  return rows;
}

/// What a device keeps of the set, behind `first` tokens of others, read in parts of `part` tokens.
std::vector<std::byte> store_of(const data::Dataset& set, std::int64_t first, std::int64_t part) {
  const std::size_t bytes = set.spec().kept_bytes();
  std::vector<std::byte> store(static_cast<std::size_t>(first + set.kept()) * bytes, std::byte{0xEE});
  for (std::int64_t at = 0; at < set.kept(); at += part) {
    const auto count = static_cast<std::size_t>(std::min(part, set.kept() - at));
    set.read_kept(at, std::span(store).subspan(static_cast<std::size_t>(first + at) * bytes, count * bytes));
  }
  return store;
}

Rows made_of(const Rows& windows, const GatherWindows& op, const std::vector<std::byte>& store) {
  const Shape targets = op.per_token ? Shape{windows.count, op.length} : Shape{windows.count};
  const kernels::KernelIo io{
      .inputs = {{DType::i64, {windows.count, 2}, {}},
                 {DType::u8, {std::ssize(store) / op.width, op.width}, {}}},
      .outputs = {{DType::i64, {windows.count, op.length}, {}}, {DType::i64, targets, {}}}};
  const auto rows = upload(windows.inputs);
  const auto stored = upload(store);
  const auto inputs_made = device().allocate(io.outputs[0].bytes());
  const auto targets_made = device().allocate(io.outputs[1].bytes());
  const std::vector<void*> addresses{rows->data(), stored->data(), inputs_made->data(), targets_made->data()};
  const auto stream = device().make_stream();
  kernels::kernel_for(device(), op, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  return {.inputs = download<std::int64_t>(*inputs_made),
          .targets = download<std::int64_t>(*targets_made),
          .count = windows.count};
}

}  // namespace

TEST_CASE("gather_windows: of tokens that a device keeps what the data set itself makes of them") {
  const std::size_t width = GENERATE(1, 2, 4, 8);
  const auto kind = GENERATE(WindowRule::Kind::random, WindowRule::Kind::each, WindowRule::Kind::documents);
  const bool per_token = GENERATE(true, false);
  CAPTURE(width, static_cast<int>(kind), per_token);
  const auto set = windows_of(width, kind, per_token);
  const auto kept = set->as_kept(9);
  REQUIRE(kept != nullptr);
  REQUIRE(kept->size() == set->size());
  CHECK(kept->kept() == 44);
  const data::SampleSpec& spec = kept->spec();
  CHECK(spec.input_bytes() == sizeof(kernels::KeptSample));
  CHECK(spec.target_bytes() == 0);
  CHECK(spec.kept_bytes() == width);
  const Rows wanted = rows_of(*set);
  const Rows windows = rows_of(*kept);
  for (const std::int64_t part : {44, 10}) {
    const Rows made = made_of(windows, *spec.windows, store_of(*kept, 9, part));
    CHECK(made.inputs == wanted.inputs);
    CHECK(made.targets == wanted.targets);
  }
  const std::span inputs(windows.inputs);
  for (std::size_t n = 0; n < static_cast<std::size_t>(set->size()); ++n) {
    const auto index = static_cast<std::int64_t>(n);
    CHECK(kept->length(index) == set->length(index));
    CHECK(kept->valid_targets(index, 1) == set->valid_targets(index, 1));
    CHECK(data::valid_targets_in(spec, std::as_bytes(inputs.subspan(2 * n, 2)), {}) ==
          set->valid_targets(index, 0));
  }
}

TEST_CASE("gather_windows: tokens of several widths, and packed documents, are not kept on a device") {
  const auto spec = data::window_spec(length, true, 300);
  const auto mixed = data::make_windows({piece(1, 20, 0), piece(2, 20, 0)}, {}, spec, 3, "a test");
  CHECK(mixed->as_kept(0) == nullptr);
  const WindowRule packed{.kind = WindowRule::Kind::packed};
  const auto side_by_side = data::make_windows({piece(2, 20, 0)}, packed,
                                               data::window_spec(length, true, 300, packed), 3, "a test");
  CHECK(side_by_side->as_kept(0) == nullptr);
}

}  // namespace lockstep::ops
