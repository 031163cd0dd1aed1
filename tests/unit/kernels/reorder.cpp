#include "kernels/reorder.h"

#include <array>
#include <cstdint>
#include <limits>

#include "tests/unit/kernels/harness.h"
#include "tests/unit/kernels/tile_sums.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// The first dimension lies innermost, each with room for some more.
Layout turned(const Shape& shape, const std::vector<std::int64_t>& room) {
  Layout layout = Layout::row_major(shape);
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < shape.rank(); stride *= layout.padded[axis++]) {
    layout.padded[axis] += room[axis];
    layout.strides[axis] = stride;
  }
  return layout;
}

/// With room for one more of the first dimension.
Layout turned(const Shape& shape) {
  std::vector<std::int64_t> room(shape.rank());
  room[0] = 1;
  return turned(shape, room);
}

/// Bits of `dtype` as numbers T, from row-major to `other`, there and back.
template <class T>
void check_bits(const Shape& shape, DType dtype, const Layout& other) {
  CAPTURE(name_of(dtype), shape.str(), other.str());
  const auto moved = [&](const std::vector<T>& x, const Layout& from, const Layout& to) {
    const KernelIo io{{{dtype, shape, from}}, {{dtype, shape, to}}};
    const auto source = upload(x);
    const auto target =
        upload(std::vector<T>(static_cast<std::size_t>(to.span()), std::numeric_limits<T>::max()));
    void* const addresses[] = {source->data(), target->data()};
    const auto stream = device().make_stream();
    kernel_for(device(), Reorder{}, io)->bind(addresses, nullptr)->launch(*stream);
    stream->synchronize();
    return download<T>(*target);
  };
  std::vector<T> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(std::numeric_limits<T>::max() - i);
  std::vector<T> wanted(static_cast<std::size_t>(other.span()));
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    Shape index = shape;
    std::int64_t rest = i;
    for (std::size_t axis = shape.rank(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    wanted[static_cast<std::size_t>(other.offset(index))] = x[static_cast<std::size_t>(i)];
  }
  const Layout row_major = Layout::row_major(shape);
  const std::vector<T> there = moved(x, row_major, other);
  CHECK(there == wanted);
  CHECK(moved(there, other, row_major) == x);
}

}  // namespace

TEST_CASE("reorder of numbers that oneDNN lacks keeps all their bits") {
  const Shape shape =
      GENERATE(Shape{5, 3}, Shape{7, 5, 3}, Shape{2, 40, 3, 4}, Shape{15, 33}, Shape{16, 32}, Shape{64, 65});
  check_bits<std::uint64_t>(shape, DType::i64, turned(shape));
  check_bits<std::uint64_t>(shape, DType::f64, turned(shape));
  check_bits<std::uint16_t>(shape, DType::u16, turned(shape));
}

TEST_CASE("reorder of bytes, in packs, in tiles or one by one") {
  const Shape shape = GENERATE(Shape{5, 3}, Shape{15, 33}, Shape{15, 48}, Shape{7, 5, 32}, Shape{64, 65});
  check_bits<std::uint8_t>(shape, DType::u8, turned(shape));
  for (const std::int64_t room : {1, 15, 16}) {
    Shape padded = shape;
    padded[shape.rank() - 1] += room;
    check_bits<std::uint8_t>(shape, DType::u8, Layout::row_major(padded));
  }
}

TEST_CASE("reorder of rows, whose room is a multiple of them or not") {
  const std::int64_t columns = GENERATE(2, 3, 8);
  const Shape shape{5, columns};
  for (std::int64_t room = 0; room <= 3 * columns; ++room) {
    const Layout with_room = Layout::row_major({5, columns + room});
    check_bits<std::uint8_t>(shape, DType::u8, with_room);
    check_bits<std::uint16_t>(shape, DType::bf16, with_room);
    check_bits<std::uint32_t>(shape, DType::f32, with_room);
  }
}

TEST_CASE("reorder of one row to one with room makes zeros of it, whatever lies behind x") {
  for (const std::int64_t columns : {3, 13, 15}) {
    check_bits<std::uint8_t>({1, columns}, DType::u8, Layout::row_major({1, 16}));
    check_bits<std::uint16_t>({1, columns}, DType::bf16, Layout::row_major({1, 16}));
    check_bits<std::uint32_t>({1, columns}, DType::f32, Layout::row_major({1, 16}));
    check_bits<std::uint32_t>({columns}, DType::f32, Layout::row_major({16}));
  }
}

TEST_CASE("reorder by tiles writes zeros where y has room, along each dimension") {
  const Shape shape{20, 2, 3, 37};
  const auto room = GENERATE(std::vector<std::int64_t>{0, 0, 0, 29}, std::vector<std::int64_t>{0, 0, 2, 0},
                             std::vector<std::int64_t>{0, 1, 0, 0}, std::vector<std::int64_t>{45, 1, 2, 3});
  check_bits<std::uint8_t>(shape, DType::u8, turned(shape, room));
  check_bits<std::uint16_t>(shape, DType::u16, turned(shape, room));
  check_bits<std::uint32_t>(shape, DType::f32, turned(shape, room));
  check_bits<std::uint64_t>(shape, DType::i64, turned(shape, room));
}

TEST_CASE("reorder of one number without dimensions, as a scalar parameter is") {
  const TensorDesc number{DType::f32, Shape{}, Layout::row_major(Shape{})};
  const auto source = upload(std::vector<float>{2.5F});
  const auto target = upload(std::vector<float>{0});
  void* const addresses[] = {source->data(), target->data()};
  const auto stream = device().make_stream();
  kernel_for(device(), Reorder{}, {{number}, {number}})->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  CHECK(download<float>(*target) == std::vector<float>{2.5F});
}

TEST_CASE("reorder between every two orders of the dimensions") {
  const Shape shape{2, 5, 3, 4};
  const Values x = random_values(shape, 4);
  const std::vector<std::array<std::size_t, 4>> orders{
      {0, 1, 2, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}};
  const auto ordered = [&](const std::array<std::size_t, 4>& order) {
    Layout layout = Layout::row_major(shape);
    std::int64_t stride = 1;
    for (std::size_t i = 4; i-- > 0; stride *= shape[order[i]]) layout.strides[order[i]] = stride;
    return layout;
  };
  for (const auto& from : orders) {
    for (const auto& to : orders) {
      KernelIo io = make_io({x}, {shape}, Layouts::chosen);
      io.inputs[0].layout = ordered(from);
      io.outputs[0].layout = ordered(to);
      require_close(run_prepared(kernel_for(device(), Reorder{}, io), io, {x})[0], x, 0);
    }
  }
}

TEST_CASE("reorder of pictures to channels-last, with room for more channels or without, and back") {
  const std::int64_t channels = GENERATE(3, 8, 9, 16, 70);
  const std::int64_t room = GENERATE(0, 1, 5, 13);
  const Shape shape{2, channels, 13, 11};
  CAPTURE(shape.str(), room);
  const Values x = random_values(shape, 6);
  const std::int64_t pixel = channels + room;
  const Layout last{{2, pixel, 13, 11}, {13 * 11 * pixel, 1, 11 * pixel, pixel}, {}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    KernelIo there = make_io({x}, {shape}, Layouts::row_major);
    there.inputs[0].dtype = there.outputs[0].dtype = dtype;
    there.outputs[0].layout = last;
    KernelIo back = there;
    std::swap(back.inputs[0], back.outputs[0]);
    const auto packed = run_prepared(kernel_for(device(), Reorder{}, there), there, {x});
    require_close(packed[0], x, 0);
    require_close(run_prepared(kernel_for(device(), Reorder{}, back), back, packed)[0], x, 0);
  }
}

TEST_CASE("reorder that moves rows alone, whole packs of them or not") {
  const std::int64_t columns = GENERATE(12, 15, 16, 24);
  const std::int64_t x_room = GENERATE(0, 1, 8);
  const std::int64_t y_room = GENERATE(0, 4, 8);
  CAPTURE(columns, x_room, y_room);
  const Shape shape{5, 3, columns};
  const Values x = random_values(shape, 7);
  const std::int64_t x_row = columns + x_room, y_row = columns + y_room;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    KernelIo io = make_io({x}, {shape}, Layouts::row_major);
    io.inputs[0].dtype = io.outputs[0].dtype = dtype;
    io.inputs[0].layout = Layout{{5, 3, x_row}, {3 * x_row, x_row, 1}, {}};
    io.outputs[0].layout = Layout{{5, 3, y_row}, {y_row, 5 * y_row, 1}, {}};
    require_close(run_prepared(kernel_for(device(), Reorder{}, io), io, {x})[0], x, 0);
    io.outputs[0].layout = Layout::row_major({5, 4, y_row});  // with room along two dimensions
    require_close(run_prepared(kernel_for(device(), Reorder{}, io), io, {x})[0], x, 0);
  }
}

TEST_CASE("reorder there and back changes nothing and writes zero padding") {
  const Shape shape{2, 17, 3, 5};
  const Values x = random_values(shape, 3);
  const Layout blocked{{2, 32, 3, 5}, {480, 240, 80, 16}, {{1, 16}}};
  KernelIo there = make_io({x}, {shape}, Layouts::row_major);
  there.outputs[0].layout = blocked;
  KernelIo back = make_io({x}, {shape}, Layouts::row_major);
  back.inputs[0].layout = blocked;
  const auto packed = run_prepared(kernel_for(device(), Reorder{}, there), there, {x});
  require_close(packed[0], x, 0);
  require_close(run_prepared(kernel_for(device(), Reorder{}, back), back, packed)[0], x, 0);
}

TEST_CASE("reorder between weights that two passes over AMX's tiles block each in its way") {
  const Shape shape{50, 40, 3, 1};
  const Values x = random_values(shape, 5);
  constexpr std::int64_t forward = 48 * 32, backward = 16 * 32;
  const Layout for_forward{
      {96, 64, 3, 1}, {3 * 2 * forward, forward, 2 * forward, 2 * forward}, {{1, 16}, {0, 48}, {1, 2}}};
  const Layout for_backward{
      {64, 48, 3, 1}, {9 * backward, 3 * backward, backward, backward}, {{0, 16}, {1, 16}, {0, 2}}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    KernelIo there = make_io({x}, {shape}, Layouts::row_major);
    there.inputs[0].dtype = there.outputs[0].dtype = dtype;
    there.inputs[0].layout = for_forward;
    there.outputs[0].layout = for_backward;
    KernelIo back = there;
    std::swap(back.inputs[0], back.outputs[0]);
    require_close(run_prepared(kernel_for(device(), Reorder{}, there), there, {x})[0], x, 0);
    require_close(run_prepared(kernel_for(device(), Reorder{}, back), back, {x})[0], x, 0);
  }
}

TEST_CASE("reorder of whole tiles of weights from pairs of inputs to pairs of outputs") {
  const Shape shape{128, 64, 2, 3};
  const Values x = numbers(shape, 1);
  const std::int64_t panel = GENERATE(32, 64, 128);
  const std::int64_t forward = 32 * panel;
  constexpr std::int64_t backward = 16 * 32;
  KernelIo io = make_io({x}, {shape}, Layouts::row_major);
  io.inputs[0].dtype = io.outputs[0].dtype = DType::bf16;
  io.inputs[0].layout =
      Layout{shape, {12 * forward, forward, 6 * forward, 2 * forward}, {{1, 16}, {0, panel}, {1, 2}}};
  io.outputs[0].layout =
      Layout{shape, {24 * backward, 6 * backward, 3 * backward, backward}, {{0, 16}, {1, 16}, {0, 2}}};
  for (const int threads : {1, 3}) {
    with_threads(threads, [&] {
      require_close(run_prepared(kernel_for(device(), Reorder{}, io), io, {x})[0], x, 0);
      return 0;
    });
  }
}
