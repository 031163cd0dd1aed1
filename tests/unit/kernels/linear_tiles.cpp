#include "kernels/cpu/linear_tiles.h"

#include <cmath>

#include "tests/support/skip.h"
#include "tests/unit/kernels/tile_sums.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Problem {
  std::int64_t rows, inputs, outputs;
};

/// Of weights: row-major, and the library's, with and without two inputs side by side.
std::vector<Layout> layouts_of(const Shape& w, bool pairs_only) {
  std::vector<Layout> layouts{Layout::row_major(w)};
  for (const std::int64_t panel : {16, 32, 48, 64}) {
    const auto add = [&](std::int64_t strip, std::vector<Layout::Block> blocks) {
      const Shape padded{(w[0] + panel - 1) / panel * panel, (w[1] + strip - 1) / strip * strip};
      layouts.push_back({padded, {padded[1] * panel, strip * panel}, std::move(blocks)});
    };
    add(32, {{1, 16}, {0, panel}, {1, 2}});
    add(2, {{0, panel}, {1, 2}});
    if (!pairs_only) add(16, {{1, 16}, {0, panel}});
    if (!pairs_only) add(1, {{0, panel}});
  }
  return layouts;
}

/// Element (i, j) is the sum over k of a(k, i) b(k, j), or with `plain` of a(i, k) b(k, j).
Wanted product(const Values& a, const Values& b, bool plain) {
  const std::int64_t terms = b.shape[0];
  const std::int64_t rows = plain ? a.shape[0] : a.shape[1];
  const std::int64_t columns = b.shape[1];
  const std::vector<double> zeros(static_cast<std::size_t>(rows * columns));
  Wanted wanted{{{rows, columns}, zeros}, {{rows, columns}, zeros}, terms};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < terms; ++k) {
      const double factor = a.data[static_cast<std::size_t>(plain ? i * terms + k : k * rows + i)];
      for (std::int64_t j = 0; j < columns; ++j) {
        const double term = factor * b.data[static_cast<std::size_t>(k * columns + j)];
        wanted.sums.data[static_cast<std::size_t>(i * columns + j)] += term;
        wanted.magnitudes.data[static_cast<std::size_t>(i * columns + j)] += std::fabs(term);
      }
    }
  }
  return wanted;
}

/// dw and db in f32.
std::vector<Values> weight_gradients(const Values& x, const Values& dy, const Layout& layout, int threads) {
  return with_threads(threads, [&] {
    const Shape w{dy.shape[1], x.shape[1]};
    KernelIo io = make_io({x, dy}, {w, {w[0]}}, Layouts::row_major);
    for (TensorDesc& input : io.inputs) input.dtype = DType::bf16;
    io.outputs[LinearBackwardWeights::dw].layout = layout;
    return run_prepared(tile_kernel(LinearBackwardWeights{}, io), io, {x, dy});
  });
}

Values data_gradient(const Values& dy, const Values& w, const Layout& layout, int threads) {
  return with_threads(threads, [&] {
    KernelIo io = make_io({dy, w}, {{dy.shape[0], w.shape[1]}}, Layouts::row_major);
    for (auto* side : {&io.inputs, &io.outputs}) {
      for (TensorDesc& desc : *side) desc.dtype = DType::bf16;
    }
    io.inputs[LinearBackwardData::w].layout = layout;
    return run_prepared(tile_kernel(LinearBackwardData{}, io), io, {dy, w})[0];
  });
}

/// Ends of tiles and panels in all directions; several chunks of a sum, kept and not, and blocks of inputs.
const std::vector<Problem> problems{{1, 1, 1},       {1, 64, 65},      {17, 33, 10},
                                    {32, 32, 64},    {31, 48, 70},     {100, 129, 96},
                                    {300, 160, 257}, {2100, 260, 100}, {130, 4230, 64}};

}  // namespace

TEST_CASE("weight gradients by tiles, of all ends of tiles and panels, whatever layout they have") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const auto& [rows, inputs, outputs] : problems) {
    const Values x = numbers({rows, inputs}, 1);
    const Values dy = numbers({rows, outputs}, 3);
    const Values ones{{rows, 1}, std::vector<double>(static_cast<std::size_t>(rows), 1)};
    const Wanted dw = product(dy, x, false);
    const Wanted db = product(dy, ones, false);
    for (const Layout& layout : layouts_of({outputs, inputs}, false)) {
      INFO(rows << " rows, " << inputs << " to " << outputs << ", " << layout.str());
      const auto alone = weight_gradients(x, dy, layout, 1);
      require_sums(alone[0], dw, 0);
      require_sums({db.sums.shape, alone[1].data}, db, 0);
      for (const int threads : {2, 5}) {
        const auto shared = weight_gradients(x, dy, layout, threads);
        CHECK(shared[0].data == alone[0].data);
        CHECK(shared[1].data == alone[1].data);
      }
    }
  }
}

TEST_CASE("weight gradients by tiles write their padding, whatever was there") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  const std::int64_t rows = GENERATE(40, 2100);
  const Shape w{65, 260};
  const Values x = numbers({rows, w[1]}, 1);
  const Values dy = numbers({rows, w[0]}, 3);
  const Wanted wanted = product(dy, x, false);
  for (const Layout& layout : layouts_of(w, false)) {
    INFO(rows << " rows, " << layout.str());
    KernelIo io = make_io({x, dy}, {w}, Layouts::row_major);
    for (TensorDesc& input : io.inputs) input.dtype = DType::bf16;
    io.outputs[LinearBackwardWeights::dw].layout = layout;
    const KernelPtr kernel = tile_kernel(LinearBackwardWeights{}, io);
    const auto x_memory = pack(x, Layout::row_major(x.shape), DType::bf16);
    const auto dy_memory = pack(dy, Layout::row_major(dy.shape), DType::bf16);
    const auto dw_memory = upload(std::vector<float>(static_cast<std::size_t>(layout.span()), NAN));
    const auto workspace = device().allocate(kernel->workspace_bytes());
    void* const addresses[] = {x_memory->data(), dy_memory->data(), dw_memory->data()};
    const auto stream = device().make_stream();
    kernel->bind(addresses, workspace->data())->launch(*stream);
    stream->synchronize();
    require_sums(unpack(*dw_memory, w, layout), wanted, 0);
  }
}

TEST_CASE("data gradients by tiles, of all ends of tiles and panels, whatever layout the weights have") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  for (const auto& [rows, inputs, outputs] : problems) {
    const Values dy = numbers({rows, outputs}, 1);
    const Values w = numbers({outputs, inputs}, 2);
    const Wanted dx = product(dy, w, true);
    for (const Layout& layout : layouts_of(w.shape, true)) {
      INFO(rows << " rows, " << inputs << " to " << outputs << ", " << layout.str());
      const Values alone = data_gradient(dy, w, layout, 1);
      require_sums(alone, dx, 0x1p-8);
      for (const int threads : {2, 5}) CHECK(data_gradient(dy, w, layout, threads).data == alone.data);
    }
  }
}

TEST_CASE("gradients of large linear maps in bf16 are computed by tiles") {
  if (!computes_tiles()) return tests::skip("this CPU has no AMX");
  const Shape x{1024, 512};
  const Shape w{512, 512};
  KernelIo io{{{DType::bf16, x, {}}, {DType::bf16, x, {}}}, {{DType::f32, w, {}}}};
  CHECK(takes_tiles(LinearBackwardWeights{}, io));
  io.outputs[0].dtype = DType::bf16;
  CHECK(!takes_tiles(LinearBackwardWeights{}, io));
  KernelIo data{{{DType::bf16, x, {}}, {DType::bf16, w, {}}}, {{DType::bf16, x, {}}}};
  CHECK(takes_tiles(LinearBackwardData{}, data));
  data.inputs[LinearBackwardData::w].layout = layouts_of(w, true).back();
  CHECK(takes_tiles(LinearBackwardData{}, data));
  data.inputs[LinearBackwardData::dy].shape = data.outputs[0].shape = {512, 512};
  CHECK(can_use_tiles(LinearBackwardData{}, data));
  CHECK(!takes_tiles(LinearBackwardData{}, data));
  data.inputs[LinearBackwardData::w].layout =
      Layout{{528, 512}, {512 * 24, 32 * 24}, {{1, 16}, {0, 24}, {1, 2}}};
  CHECK(!takes_tiles(LinearBackwardData{}, data));
}
