#include <omp.h>

#include <algorithm>
#include <cmath>

#include "kernels/embedding.h"
#include "tests/ops/conformance.h"
#include "tests/ops/layer_run.h"

namespace lockstep::ops {
namespace {

Values looked_up(const Values& tokens, const Values& weight) {
  const auto dim = static_cast<std::size_t>(weight.shape[1]);
  std::vector<std::int64_t> extents(tokens.shape.begin(), tokens.shape.end());
  extents.push_back(weight.shape[1]);
  Values y{Shape(std::move(extents)), {}};
  for (const double token : tokens.data) {
    for (std::size_t k = 0; k < dim; ++k) {
      y.data.push_back(token < 0 ? 0 : weight.data[static_cast<std::size_t>(token) * dim + k]);
    }
  }
  return y;
}

Values reference(const std::vector<Values>& in) {
  return looked_up(in[0], in[1]);
}

/// x (..., dim) by weight (vocab, dim).
Values classified(const Values& x, const Values& weight) {
  const std::int64_t dim = weight.shape[1];
  const std::int64_t vocab = weight.shape[0];
  std::vector<std::int64_t> extents(x.shape.begin(), x.shape.end());
  extents.back() = vocab;
  Values y{Shape(std::move(extents)), {}};
  for (std::int64_t row = 0; row < x.shape.elements() / dim; ++row) {
    for (std::int64_t k = 0; k < vocab; ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        sum += x.data[static_cast<std::size_t>(row * dim + i)] *
               weight.data[static_cast<std::size_t>(k * dim + i)];
      }
      y.data.push_back(sum);
    }
  }
  return y;
}

LayerRun::Layer embedding_of(std::int64_t vocab, std::int64_t dim) {
  return [=](const std::vector<Tensor>& in) { return embedding(in[0], "embedding", vocab, dim); };
}

}  // namespace

TEST_CASE("embedding") {
  conform({.name = "embedding",
           .layer = embedding_of(11, 7),
           .reference = reference,
           .operands = {"tokens", "weight"},
           .shapes = {{{3, 17}}, {{1}}, {{2, 1, 5}}},
           .tolerance = 1e-5,  // of a gradient: a sum of some ten numbers up to 1
           .vocab = {11}});
}

TEST_CASE("embedding of rows that four numbers divide") {
  conform({.name = "embedding_long",
           .layer = embedding_of(50, 64),
           .reference = reference,
           .operands = {"tokens", "weight"},
           .shapes = {{{300}}, {{5, 350}}},
           .tolerance = 1e-5,
           .vocab = {50}});
}

TEST_CASE("embedding whose weight classifies too") {
  conform(
      {.name = "embedding_tied",
       .layer =
           [](const std::vector<Tensor>& in) {
             const Tensor weight = embedding_weight(in[0].graph(), "wte", 13, 20);
             return shared_linear(embedding(in[0], weight), weight);
           },
       .reference = [](const std::vector<Values>& in) { return classified(looked_up(in[0], in[1]), in[1]); },
       .operands = {"tokens", "weight"},
       .shapes = {{{5, 7}}},
       .tolerance = 2e-5,
       .vocab = {13}});
}

TEST_CASE("embedding: a token that is no row gives no number, and no gradient") {
  LayerRun layer(embedding_of(5, 3), {{DType::i64, {4}}});
  const Values dy{{4, 3}, std::vector<double>(12, 1.0)};
  const LayerResult got = layer.run({{{4}, {5, 2, -2, -1}}, kernels::test::random_values({5, 3}, 1)}, dy);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(std::isnan(got.y.data[k]));
    CHECK(std::isfinite(got.y.data[3 + k]));
    CHECK(std::isnan(got.y.data[6 + k]));
    CHECK(got.y.data[9 + k] == 0);
  }
  for (std::size_t i = 0; i < 15; ++i) CHECK(got.gradients[1].data[i] == (i / 3 == 2 ? 1 : 0));
}

TEST_CASE("embedding_backward adds to a sum, in its memory or beside it, as an op of its own would") {
  using Op = kernels::EmbeddingBackward;
  using kernels::test::upload;
  constexpr std::int64_t vocab = 9;
  const std::int64_t dim = GENERATE(40, 1028, 1031);
  std::vector<std::int64_t> tokens{3, 8, 3, -1, 0, 3};
  if (GENERATE(false, true)) {
    tokens.insert(tokens.end(), 300, 0);
    tokens.insert(tokens.end(), {8, 9, 7});
    tokens.insert(tokens.end(), 70, 3);
  }
  const auto count = static_cast<std::int64_t>(tokens.size());
  CAPTURE(dim, count);
  const auto floats = [](const Values& values) {
    return std::vector<float>(values.data.begin(), values.data.end());
  };
  std::vector<float> rows = floats(kernels::test::random_values({count, dim}, 1));
  for (float& value : rows) value /= 3;  // sums round
  const auto dy = upload(rows);
  const std::vector<float> known = floats(kernels::test::random_values({vocab, dim}, 2));
  const auto ids = upload(tokens);
  const kernels::TensorDesc weight{DType::f32, {vocab, dim}, {}};
  const auto run = [&](bool with_sum, bool in_place) {
    kernels::KernelIo io{.inputs = {{DType::f32, {count, dim}, {}}, {DType::i64, {count}, {}}},
                         .outputs = {weight}};
    if (with_sum) io.inputs.push_back(weight);
    const auto kernel = kernel_for(kernels::test::device(), Op{}, io);
    const auto sum = upload(known);
    const auto out = upload(std::vector<float>(known.size(), 7.0F));
    std::vector<void*> addresses{dy->data(), ids->data()};
    if (with_sum) addresses.push_back(sum->data());
    addresses.push_back(in_place ? sum->data() : out->data());
    const auto workspace = kernels::test::device().allocate(kernel->workspace_bytes());
    const auto stream = kernels::test::device().make_stream();
    kernel->bind(addresses, workspace->data())->launch(*stream);
    stream->synchronize();
    return kernels::test::download<float>(in_place ? *sum : *out);
  };
  std::vector<float> wanted(known.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(dim);
    const std::int64_t token = tokens[i / row];
    if (token >= 0 && token < vocab) wanted[static_cast<std::size_t>(token) * row + i % row] += rows[i];
  }
  CHECK(run(false, false) == wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += known[i];
  CHECK(run(true, false) == wanted);
  CHECK(run(true, true) == wanted);
}

TEST_CASE("embedding_backward: rows of no numbers are none, and rows that no grid covers are refused") {
  using Op = kernels::EmbeddingBackward;
  kernels::Device& device = kernels::test::device();
  const auto kernel_of = [&](std::int64_t dim) {
    return kernel_for(
        device, Op{},
        {{{DType::f32, {100, dim}, {}}, {DType::i64, {100}, {}}}, {{DType::f32, {5, dim}, {}}}});
  };
  const auto tokens = kernels::test::upload(std::vector<std::int64_t>(100, 3));
  const auto nothing = device.allocate(64);
  const auto kernel = kernel_of(0);
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  void* const addresses[] = {nothing->data(), tokens->data(), nothing->data()};
  const auto stream = device.make_stream();
  CHECK_NOTHROW(kernel->bind(addresses, workspace->data())->launch(*stream));
  CHECK_NOTHROW(stream->synchronize());
  if (device.is_cpu()) return;
  CHECK_NOTHROW(kernel_of(2097120));
  CHECK_THROWS_WITH(kernel_of(2097121), Catch::Contains("at most 2097120"));
}

TEST_CASE("embedding: the same bits from any team") {
  constexpr std::int64_t vocab = 40;
  LayerRun layer(embedding_of(vocab, 96), {{DType::i64, {1500}}});
  Values tokens = kernels::test::random_values({1500}, 3);
  for (double& token : tokens.data) token = std::floor(std::abs(token) * std::abs(token) * (vocab - 1));
  const Values weight = kernels::test::random_values({vocab, 96}, 4);
  Values dy = kernels::test::random_values(layer.output_shape(), 77);
  for (std::size_t i = 0; i < dy.data.size(); ++i) dy.data[i] *= static_cast<float>(1 + i % 7) / 3;  // rounds
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const LayerResult alone = layer.run({tokens, weight}, dy);
  omp_set_num_threads(3);
  const LayerResult by_three = layer.run({tokens, weight}, dy);
  omp_set_num_threads(before);
  CHECK(alone.y.data == by_three.y.data);
  CHECK(alone.gradients[1].data == by_three.gradients[1].data);
}

}  // namespace lockstep::ops
