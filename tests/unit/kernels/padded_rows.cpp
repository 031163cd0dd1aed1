// On a GPU: rows with room behind their columns, and weights with room behind their rows.
#include "kernels/padded_rows.h"

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/cast.h"
#include "kernels/embedding.h"
#include "kernels/linear_gelu.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

const Values x = random_values({6, 12}, 1);
const Values w = random_values({10, 12}, 2);
const Values b = random_values({10}, 3);
const Values dy = random_values({6, 10}, 4);
const Layout wide_x = Layout::row_major({6, 16});
const Layout wide_w = Layout::row_major({16, 16});
const Layout wide_b = Layout::row_major({16});
const Layout wide_y = Layout::row_major({6, 16});

/// `layouts` of inputs, then outputs; none: open.
using Open = std::vector<std::optional<Layout>>;

KernelIo io_of(const std::vector<Values>& inputs, const std::vector<Shape>& outputs, const Open& layouts) {
  KernelIo io = make_io(inputs, outputs, Layouts::chosen);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    (i < inputs.size() ? io.inputs[i] : io.outputs[i - inputs.size()]).layout = layouts[i];
  }
  return io;
}

/// The operands' layouts after the choice.
Open chosen(const KernelIo& io) {
  Open layouts;
  for (const auto* descs : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *descs) layouts.push_back(desc.layout);
  }
  return layouts;
}

/// What the op gives where layouts are as said, which the choice must turn into `wanted`.
template <class Spec>
std::vector<Values> run_in(const Spec& spec, const std::vector<Values>& inputs,
                           const std::vector<Shape>& outputs, const Open& given, const Open& wanted,
                           DType dtype = DType::f32) {
  KernelIo io = io_of(inputs, outputs, given);
  for (auto* descs : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *descs) desc.dtype = dtype;
  }
  choose_layouts(device(), spec, io);
  CHECK(chosen(io) == wanted);
  return run_prepared(kernel_for(device(), spec, io), io, inputs);
}

Layout plain(const Values& values) {
  return Layout::row_major(values.shape);
}

bool is_gpu() {
  return !device().is_cpu();
}

/// Sums of up to 12 products of numbers up to 1, in f32.
constexpr double bound = 1e-5;

}  // namespace

TEST_CASE("room of a linear map's operands is computed where all have it, and becomes zero") {
  if (!is_gpu()) return;
  const Values y = linear(x, w, &b);
  const auto whole = run_in(Linear{}, {x, w, b}, {y.shape}, {wide_x, wide_w, wide_b, wide_y},
                            {wide_x, wide_w, wide_b, wide_y});
  require_close(whole[0], y, bound);
  require_close(run_in(Linear{Activation::relu}, {x, w, b}, {y.shape}, {wide_x, wide_w, wide_b, wide_y},
                       {wide_x, wide_w, wide_b, wide_y})[0],
                relu(y), bound);
  const Values dx = run(LinearBackwardData{}, {dy, w}, {x.shape}, Layouts::row_major)[0];
  require_close(
      run_in(LinearBackwardData{}, {dy, w}, {x.shape}, {wide_y, wide_w, wide_x}, {wide_y, wide_w, wide_x})[0],
      dx, bound);
  const auto gradients = run(LinearBackwardWeights{}, {x, dy}, {w.shape, b.shape}, Layouts::row_major);
  const auto wide = run_in(LinearBackwardWeights{}, {x, dy}, {w.shape, b.shape}, {wide_x, wide_y, wide_w, {}},
                           {wide_x, wide_y, wide_w, wide_b});
  for (std::size_t i = 0; i < wide.size(); ++i) require_close(wide[i], gradients[i], bound);
}

TEST_CASE("room that one operand alone has is passed over, and no result has it") {
  if (!is_gpu()) return;
  const Values y = linear(x, w, &b);
  require_close(run_in(Linear{}, {x, w, b}, {y.shape}, {{}, wide_w, wide_b, {}},
                       {plain(x), wide_w, wide_b, plain(y)})[0],
                y, bound);
  require_close(run_in(Linear{}, {x, w, b}, {y.shape}, {wide_x, plain(w), plain(b), wide_y},
                       {wide_x, plain(w), plain(b), plain(y)})[0],
                y, bound);
  const Values dx = run(LinearBackwardData{}, {dy, w}, {x.shape}, Layouts::row_major)[0];
  require_close(
      run_in(LinearBackwardData{}, {dy, w}, {x.shape}, {{}, wide_w, {}}, {plain(dy), wide_w, plain(x)})[0],
      dx, bound);
  require_close(run_in(LinearBackwardData{}, {dy, w}, {x.shape}, {wide_y, plain(w), wide_x},
                       {wide_y, plain(w), plain(x)})[0],
                dx, bound);
  const auto gradients = run(LinearBackwardWeights{}, {x, dy}, {w.shape, b.shape}, Layouts::row_major);
  const auto narrow = run_in(LinearBackwardWeights{}, {x, dy}, {w.shape, b.shape}, {wide_x, wide_y, {}, {}},
                             {wide_x, wide_y, plain(w), plain(b)});
  for (std::size_t i = 0; i < narrow.size(); ++i) require_close(narrow[i], gradients[i], bound);
}

TEST_CASE(
    "a gradient with room wants it of what it is made of, and a product refuses to leave it unwritten") {
  if (!is_gpu()) return;
  KernelIo io = io_of({x, dy}, {w.shape, b.shape}, {plain(x), plain(dy), wide_w, wide_b});
  CHECK_THROWS_AS(kernel_for(device(), LinearBackwardWeights{}, io), UsageError);
  choose_layouts(device(), LinearBackwardWeights{}, io);
  CHECK(chosen(io) == Open{wide_x, wide_y, wide_w, wide_b});
  const KernelIo forward = io_of({x, w}, {dy.shape}, {plain(x), plain(w), wide_y});
  CHECK_THROWS_AS(kernel_for(device(), Linear{}, forward), UsageError);
  const KernelIo data = io_of({dy, w}, {x.shape}, {wide_y, plain(w), wide_x});
  CHECK_THROWS_AS(kernel_for(device(), LinearBackwardData{}, data), UsageError);
}

TEST_CASE("weights for pictures have room behind their rows where the result has it") {
  if (!is_gpu()) return;
  const Values pictures = random_values({6, 3, 2, 2}, 5);
  const Values weights = random_values({10, 3, 2, 2}, 6);
  const Layout last = channels_last(pictures.shape);
  const Layout wide = channels_last({16, 3, 2, 2});
  require_close(run_in(Linear{}, {pictures, weights, b}, {dy.shape}, {last, {}, {}, wide_y},
                       {last, wide, wide_b, wide_y})[0],
                linear(pictures, weights, &b), bound);
  const auto gradients =
      run(LinearBackwardWeights{}, {pictures, dy}, {weights.shape, b.shape}, Layouts::row_major);
  const auto with_room = run_in(LinearBackwardWeights{}, {pictures, dy}, {weights.shape, b.shape},
                                {last, plain(dy), wide, {}}, {last, wide_y, wide, wide_b});
  for (std::size_t i = 0; i < with_room.size(); ++i) require_close(with_room[i], gradients[i], bound);
}

TEST_CASE("products that end in gelu have room, too, where the library has them and where a pass follows") {
  if (!is_gpu()) return;
  const DType dtype = GENERATE(DType::bf16, DType::f32);
  // Results up to 12 of 8 bits; rounded before the function or after, and once more.
  const double rounding = dtype == DType::bf16 ? 0.1 : bound;
  const std::vector<Shape> outputs{dy.shape, dy.shape};
  const auto without = run_in(LinearGelu{}, {x, w, b}, outputs, {},
                              {plain(x), plain(w), plain(b), plain(dy), plain(dy)}, dtype);
  const auto with_room = run_in(LinearGelu{}, {x, w, b}, outputs, {wide_x, wide_w, wide_b, wide_y, {}},
                                {wide_x, wide_w, wide_b, wide_y, wide_y}, dtype);
  for (std::size_t i = 0; i < outputs.size(); ++i) require_close(with_room[i], without[i], rounding);
  const Values slope = run_in(LinearBackwardGelu{}, {dy, w, x}, {x.shape}, {},
                              {plain(dy), plain(w), plain(x), plain(x)}, dtype)[0];
  require_close(run_in(LinearBackwardGelu{}, {dy, w, x}, {x.shape}, {wide_y, wide_w, {}, wide_x},
                       {wide_y, wide_w, wide_x, wide_x}, dtype)[0],
                slope, rounding);
}

TEST_CASE("a cast gives rows room, takes it from them, and keeps it where its result is open") {
  if (!is_gpu()) return;
  const std::vector<Values> matrices{w, random_values({3, 5, 9}, 7)};
  for (const Values& matrix : matrices) {
    Shape padded = matrix.shape;
    padded[padded.rank() - 1] = 16;
    if (padded.rank() == 2) padded[0] = 16;
    const Layout wide = Layout::row_major(padded);
    for (const auto& [from, to] : {std::pair{plain(matrix), wide}, std::pair{wide, plain(matrix)}}) {
      require_close(run_in(Cast{}, {matrix}, {matrix.shape}, {from, to}, {from, to})[0], matrix, 0);
    }
    require_close(run_in(Cast{}, {matrix}, {matrix.shape}, {wide, {}}, {wide, wide})[0], matrix, 0);
  }
}

TEST_CASE("rows behind a table are zero in the gradient of an embedding, too, whatever is added to it") {
  if (!is_gpu()) return;
  const bool has_sum = GENERATE(false, true);
  const Shape table{5, 3};
  const Layout wide = Layout::row_major_up_to(8, table);
  const Values of_rows{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const Values sum{table, std::vector<double>(15, 10)};
  KernelIo io{{{DType::f32, of_rows.shape, {}}, {DType::i64, {2}, {}}}, {{DType::f32, table, wide}}};
  if (has_sum) io.inputs.push_back({DType::f32, table, Layout::row_major(table)});
  choose_layouts(device(), EmbeddingBackward{}, io);
  CHECK(io.outputs[0].layout == wide);
  const KernelPtr kernel = kernel_for(device(), EmbeddingBackward{}, io);
  const auto rows = pack(of_rows, Layout::row_major(of_rows.shape));
  const auto tokens = upload(std::vector<std::int64_t>{4, 1});
  const auto before = pack(sum, Layout::row_major(table));
  const auto after = upload(std::vector<float>(24, NAN));
  const auto workspace = device().allocate(kernel->workspace_bytes());
  std::vector<void*> addresses{rows->data(), tokens->data()};
  if (has_sum) addresses.push_back(before->data());
  addresses.push_back(after->data());
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
  Values wanted{table, std::vector<double>(15, has_sum ? 10 : 0)};
  for (std::size_t k = 0; k < 3; ++k) {
    wanted.data[3 * 4 + k] += of_rows.data[k];
    wanted.data[3 * 1 + k] += of_rows.data[3 + k];
  }
  require_close(unpack(*after, table, wide), wanted, 0);
}
