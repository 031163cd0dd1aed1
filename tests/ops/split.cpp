#include "kernels/split.h"

#include <numeric>

#include "kernels/base/error.h"
#include "tests/ops/conformance.h"
#include "tests/support/message_of.h"

namespace lockstep::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The element of the whole at (row, at, rest), where `at` counts along the dimension that is cut.
struct Reference {
  std::int64_t rows, extent, rest;

  Reference(const Shape& shape, std::size_t axis)
      : rows(Shape(Sizes(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis))).elements()),
        extent(shape[axis]),
        rest(shape.elements(axis + 1)) {}

  std::size_t index(std::int64_t row, std::int64_t at, std::int64_t i) const {
    return static_cast<std::size_t>((row * extent + at) * rest + i);
  }
};

/// Elements [first, first + part's extent) of the whole along `axis`, from it or into it.
void copy_part(Values& part, Values& whole, std::size_t axis, std::int64_t first, bool into_part) {
  const Reference of_part(part.shape, axis);
  const Reference of_whole(whole.shape, axis);
  for (std::int64_t row = 0; row < of_part.rows; ++row) {
    for (std::int64_t at = 0; at < of_part.extent; ++at) {
      for (std::int64_t i = 0; i < of_part.rest; ++i) {
        double& inner = part.data[of_part.index(row, at, i)];
        double& outer = whole.data[of_whole.index(row, first + at, i)];
        (into_part ? inner : outer) = into_part ? outer : inner;
      }
    }
  }
}

Values zeros(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
}

std::vector<Values> split_values(Values x, const Sizes& sizes, std::size_t axis) {
  std::vector<Values> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    Shape shape = x.shape;
    shape[axis] = size;
    parts.push_back(zeros(shape));
    copy_part(parts.back(), x, axis, first, true);
    first += size;
  }
  return parts;
}

Values concat_values(std::vector<Values> parts, std::size_t axis) {
  Shape shape = parts.front().shape;
  shape[axis] = 0;
  for (const Values& part : parts) shape[axis] += part.shape[axis];
  Values whole = zeros(shape);
  std::int64_t first = 0;
  for (Values& part : parts) {
    copy_part(part, whole, axis, first, false);
    first += part.shape[axis];
  }
  return whole;
}

const Sizes sizes{2, 4, 1};

}  // namespace

TEST_CASE("split: a part, the others unused") {
  struct Case {
    const char* name;
    std::int64_t dim;
    std::size_t axis, part;
    std::vector<std::vector<Shape>> shapes;
  };
  const Case test = GENERATE(Case{"split_first", 1, 1, 0, {{{3, 7}}, {{2, 7, 5}}, {{2, 7, 4, 8}}}},
                             Case{"split_middle", -2, 1, 1, {{{2, 7, 5}}, {{1, 7, 1}}}},
                             Case{"split_last", 0, 0, 2, {{{7}}, {{7, 5, 3}}}});
  conform(
      {.name = test.name,
       .layer = [=](const std::vector<Tensor>& in) { return split(in[0], sizes, test.dim)[test.part]; },
       .reference =
           [=](const std::vector<Values>& in) { return split_values(in[0], sizes, test.axis)[test.part]; },
       .operands = {"x"},
       .shapes = test.shapes,
       .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("split: every part used") {
  conform({.name = "split_all",
           .layer =
               [](const std::vector<Tensor>& in) {
                 const std::vector<Tensor> parts = split(in[0], {3, 3}, -1);
                 return mul(parts[0], parts[1]);
               },
           .reference =
               [](const std::vector<Values>& in) {
                 std::vector<Values> parts = split_values(in[0], {3, 3}, in[0].shape.rank() - 1);
                 for (std::size_t i = 0; i < parts[0].data.size(); ++i) parts[0].data[i] *= parts[1].data[i];
                 return parts[0];
               },
           .operands = {"x"},
           .shapes = {{{6}}, {{5, 6}}, {{3, 7, 6}}},
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("concat") {
  conform({.name = "concat",
           .layer = [](const std::vector<Tensor>& in) { return model::concat(in, 1); },
           .reference = [](const std::vector<Values>& in) { return concat_values(in, 1); },
           .operands = {"a", "b", "c"},
           .shapes = {{{3, 2}, {3, 4}, {3, 1}}, {{2, 8, 3, 4}, {2, 16, 3, 4}, {2, 8, 3, 4}}},
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("concat: of rows") {
  conform({.name = "concat_rows",
           .layer = [](const std::vector<Tensor>& in) { return model::concat(in, -3); },
           .reference = [](const std::vector<Values>& in) { return concat_values(in, 0); },
           .operands = {"a", "b"},
           .shapes = {{{1, 1, 1}, {2, 1, 1}}, {{2, 3, 5}, {4, 3, 5}}}});
}

TEST_CASE("concat: one tensor twice") {
  conform({.name = "concat_twice",
           .layer =
               [](const std::vector<Tensor>& in) {
                 return model::concat({in[0], in[0]}, -1);
               },
           .reference =
               [](const std::vector<Values>& in) {
                 return concat_values({in[0], in[0]}, in[0].shape.rank() - 1);
               },
           .operands = {"x"},
           .shapes = {{{5}}, {{3, 7, 5}}}});
}

namespace {

/// As bytes: neighbours differ, whatever the size of an element.
std::vector<std::uint8_t> numbered(std::size_t bytes) {
  std::vector<std::uint8_t> numbers(bytes);
  for (std::size_t i = 0; i < bytes; ++i) numbers[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  return numbers;
}

template <class Op>
std::vector<std::vector<std::uint8_t>> run(const Op& op, const kernels::KernelIo& io,
                                           const std::vector<std::vector<std::uint8_t>>& inputs) {
  using kernels::test::device;
  std::vector<std::unique_ptr<kernels::Memory>> memory;
  for (const auto& input : inputs) memory.push_back(kernels::test::upload(input));
  for (const auto& output : io.outputs)
    memory.push_back(kernels::test::upload(std::vector<std::uint8_t>(output.bytes())));
  std::vector<void*> addresses;
  for (const auto& tensor : memory) addresses.push_back(tensor->data());
  const auto stream = device().make_stream();
  kernel_for(device(), op, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  std::vector<std::vector<std::uint8_t>> outputs;
  for (std::size_t i = inputs.size(); i < memory.size(); ++i)
    outputs.push_back(kernels::test::download<std::uint8_t>(*memory[i]));
  return outputs;
}

}  // namespace

TEST_CASE(
    "split and concat: elements of every size, an empty part, more parts than a launch takes, work for a "
    "team") {
  const DType dtype = GENERATE(DType::u8, DType::u16, DType::f32, DType::i64);
  const Shape shape = GENERATE(Shape{3, 7}, Shape{7, 1}, Shape{6, 7, 16}, Shape{9, 7, 4321});
  const std::int64_t dim = shape[0] == 7 ? 0 : 1;
  const kernels::Split split{.sizes = {2, 0, 1, 2, 1, 1}, .dim = dim};
  kernels::KernelIo io{{{dtype, shape, {}}}, {}};
  for (const auto& part : split.infer(types_of(io.inputs))) io.outputs.push_back({dtype, part.shape, {}});
  const auto x = numbered(io.inputs[0].bytes());
  const auto parts = run(split, io, {x});
  const std::size_t row = bytes_of(dtype, shape) / static_cast<std::size_t>(dim == 0 ? 1 : shape[0]);
  std::size_t first = 0;
  bool same = true;
  for (const auto& part : parts) {
    const std::size_t run_bytes = part.size() / (x.size() / row);
    for (std::size_t i = 0; i < part.size(); ++i) {
      same = same && part[i] == x[i / run_bytes * row + first + i % run_bytes];
    }
    first += run_bytes;
  }
  INFO(name_of(dtype) << " " << shape.str());
  CHECK(same);
  CHECK(run(kernels::Concat{dim}, {io.outputs, io.inputs}, parts).front() == x);
}

TEST_CASE("split and concat: what does not fit is refused by name") {
  model::Graph graph;
  const auto input = [&](const Shape& shape, DType dtype = DType::f32) {
    return Tensor(graph, graph.add_value("x", {dtype, shape}, model::Role::input));
  };
  const Tensor x = input({3, 7});
  using tests::contains;
  const auto refused = [](const auto& layer) { return tests::message_of<UsageError>(layer); };
  CHECK_THAT(refused([&] {
               split(x, {2, 4}, 1);
             }),
             contains("sizes 2x4 do not add up to dimension 1 of 3x7"));
  CHECK_THAT(refused([&] { split(x, {9, -2}, 1); }), contains("do not add up"));
  CHECK_THAT(refused([&] { split(x, {1, 2}, -3); }), contains("dimension -3 is none of 3x7"));
  CHECK_THAT(refused([&] { model::concat({x, x}, 2); }), contains("dimension 2 is none of 3x7"));
  CHECK_THAT(refused([&] {
               model::concat({x, input({3, 8})}, 0);
             }),
             contains("input 1 is f32 3x8, must be f32 3x7"));
  CHECK_THAT(refused([&] {
               model::concat({x, input({3, 7}, DType::u8)}, 0);
             }),
             contains("input 1 is u8 3x7"));
  CHECK_THAT(refused([&] { model::concat({x, input({3})}, 0); }), contains("input 1 is 3"));
  CHECK_THAT(refused([&] { model::concat({}, 0); }), contains("at least one tensor"));
}

}  // namespace lockstep::ops
