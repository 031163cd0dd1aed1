#include "kernels/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "tests/support/largest_error.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {
namespace {

using namespace kernels;
using namespace kernels::test;

constexpr std::int64_t rows = 2;

/// Caches, queries and what they see.
struct Case {
  std::int64_t tokens, heads, head_size, capacity;
  std::vector<std::int64_t> last;  ///< by row and token

  Shape queries() const { return {rows, tokens, heads * head_size}; }
  Shape cache() const { return {rows, heads, capacity, head_size}; }
};

TensorDesc desc(DType dtype, const Shape& shape) {
  return {.dtype = dtype, .shape = shape, .layout = Layout::row_major(shape)};
}

std::vector<float> floats(const Values& values) {
  return {values.data.begin(), values.data.end()};
}

void launch(const KernelPtr& kernel, const std::vector<const Memory*>& operands) {
  std::vector<void*> addresses;
  for (const Memory* operand : operands) addresses.push_back(operand->data());
  const auto workspace = device().allocate(std::max<std::size_t>(64, kernel->workspace_bytes()));
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
}

/// By the definition, in double.
std::vector<double> attention(const Case& test, double scale, const Values& q, const Values& keys,
                              const Values& values) {
  std::vector<double> y(q.data.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t token = 0; token < rows * test.tokens; ++token) {
    for (std::int64_t head = 0; head < test.heads; ++head) {
      const std::int64_t query = (token * test.heads + head) * test.head_size;
      const std::int64_t cache = (token / test.tokens * test.heads + head) * test.capacity * test.head_size;
      const std::int64_t entries = std::min(test.last[at(token)] + 1, test.capacity);
      double total = 0;
      for (std::int64_t entry = 0; entry < entries; ++entry) {
        double score = 0;
        const std::int64_t key = cache + entry * test.head_size;
        for (std::int64_t i = 0; i < test.head_size; ++i)
          score += q.data[at(query + i)] * keys.data[at(key + i)];
        const double factor = std::exp(score * scale);
        total += factor;
        for (std::int64_t i = 0; i < test.head_size; ++i)
          y[at(query + i)] += factor * values.data[at(key + i)];
      }
      for (std::int64_t i = 0; i < test.head_size && total > 0; ++i) y[at(query + i)] /= total;
    }
  }
  return y;
}

/// `from`: the row of each entry; null: its own.
std::vector<float> attended(const Case& test, double scale, const Values& q, const Values& keys,
                            const Values& values, const std::vector<std::int64_t>* from = nullptr) {
  KernelIo io{{desc(DType::f32, test.queries()), desc(DType::i64, {rows, test.tokens}),
               desc(DType::f32, test.cache()), desc(DType::f32, test.cache())},
              {desc(DType::f32, test.queries())}};
  if (from != nullptr) io.inputs.push_back(desc(DType::i64, {rows, test.capacity}));
  const auto kernel = kernel_for(device(), CachedAttention{.scale = scale}, io);
  const auto y = device().allocate(q.data.size() * sizeof(float));
  if (from != nullptr) {
    launch(kernel, {upload(floats(q)).get(), upload(test.last).get(), upload(floats(keys)).get(),
                    upload(floats(values)).get(), upload(*from).get(), y.get()});
    return download<float>(*y);
  }
  launch(kernel, {upload(floats(q)).get(), upload(test.last).get(), upload(floats(keys)).get(),
                  upload(floats(values)).get(), y.get()});
  return download<float>(*y);
}

}  // namespace

TEST_CASE("cached_attention: as its definition, whatever a query sees") {
  const std::vector<Case> cases{
      {1, 2, 8, 5, {0, 4}},          {1, 1, 3, 200, {199, 64}},
      {1, 3, 64, 300, {-1, 255}},    {3, 2, 100, 130, {0, 63, 129, 127, 128, -1}},
      {2, 1, 200, 9, {20, 8, 1, 2}}, {65, 4, 16, 70, std::vector<std::int64_t>(130, 69)}};
  for (const Case& test : cases) {
    const Values q = random_values(test.queries(), 1);
    const Values keys = random_values(test.cache(), 2);
    const Values values = random_values(test.cache(), 3);
    const double scale = 1 / std::sqrt(static_cast<double>(test.head_size));
    const std::vector<float> got = attended(test, scale, q, keys, values);
    const std::vector<double> wanted = attention(test, scale, q, keys, values);
    CAPTURE(test.tokens, test.head_size, test.capacity);
    CHECK(tests::largest_error(got, wanted) < 1e-6);
  }
}

TEST_CASE("cached_attention: entries of other rows, as if they were copied") {
  const Case test{1, 2, 20, 150, {149, 77}};
  const Values q = random_values(test.queries(), 1);
  const Values keys = random_values(test.cache(), 2);
  const Values values = random_values(test.cache(), 3);
  std::vector<std::int64_t> from;
  for (std::int64_t i = 0; i < rows * test.capacity; ++i) from.push_back(i * i % 7 % rows);
  const auto gathered = [&](const Values& cache) {
    Values copy = cache;
    const std::int64_t in_row = test.heads * test.capacity * test.head_size;
    for (std::int64_t i = 0; i < rows * in_row; ++i) {
      const std::int64_t entry = i / in_row * test.capacity + i / test.head_size % test.capacity;
      const std::int64_t at = from[static_cast<std::size_t>(entry)] * in_row + i % in_row;
      copy.data[static_cast<std::size_t>(i)] = cache.data[static_cast<std::size_t>(at)];
    }
    return copy;
  };
  CHECK(attended(test, 0.2, q, keys, values, &from) ==
        attended(test, 0.2, q, gathered(keys), gathered(values)));
}

TEST_CASE("cached_attention: great scores choose one value") {
  const Case test{1, 1, 1, 100, {99, 40}};
  const Values q{test.queries(), {1, -1}};
  Values keys{test.cache(), {}};
  for (int i = 0; i < 200; ++i) keys.data.push_back((i * 37 % 101 - 50) / 64.0);  // all differ in a row
  const Values values = random_values(test.cache(), 3);
  const std::vector<float> got = attended(test, 1e6, q, keys, values);
  const auto chosen = [&](std::size_t row, double sign) {
    const auto first = keys.data.begin() + static_cast<std::ptrdiff_t>(row * 100);
    const auto best = std::max_element(first, first + test.last[row] + 1,
                                       [sign](double a, double b) { return sign * a < sign * b; });
    return values.data[static_cast<std::size_t>(best - keys.data.begin())];
  };
  CHECK(got[0] == chosen(0, 1));
  CHECK(got[1] == chosen(1, -1));
}

TEST_CASE("cache_append: each token to its position, padding nowhere") {
  constexpr std::int64_t tokens = 3;
  constexpr std::int64_t heads = 2;
  constexpr std::int64_t head_size = 5;
  constexpr std::int64_t capacity = 4;
  const Shape of_x{rows, tokens, heads * head_size};
  const Shape of_cache{rows, heads, capacity, head_size};
  const std::vector<std::int64_t> positions{1, 2, -1, 3, 4, 0};
  const KernelIo io{{desc(DType::f32, of_x), desc(DType::i64, {rows, tokens})}, {desc(DType::f32, of_cache)}};
  const auto kernel = kernel_for(device(), CacheAppend{.heads = heads, .capacity = capacity}, io);
  const std::vector<float> x = floats(random_values(of_x, 1));
  const std::vector<float> before = floats(random_values(of_cache, 2));
  const auto cache = upload(before);
  launch(kernel, {upload(x).get(), upload(positions).get(), cache.get()});
  std::vector<float> wanted = before;
  for (std::int64_t token = 0; token < rows * tokens; ++token) {
    const std::int64_t position = positions[static_cast<std::size_t>(token)];
    if (position < 0 || position >= capacity) continue;
    for (std::int64_t column = 0; column < heads * head_size; ++column) {
      const std::int64_t head = token / tokens * heads + column / head_size;
      const std::int64_t to = (head * capacity + position) * head_size + column % head_size;
      wanted[static_cast<std::size_t>(to)] = x[static_cast<std::size_t>(token * heads * head_size + column)];
    }
  }
  CHECK(download<float>(*cache) == wanted);
}

TEST_CASE("source_positions: those of tokens, and of the last one") {
  const std::vector<std::int64_t> tokens{5, 0, 7, -1, -1, -1, -1, -1, -1, -1, 3, 3, 3, 3, 3};
  const KernelIo io{{desc(DType::i64, {3, 5})}, {desc(DType::i64, {3, 5}), desc(DType::i64, {3, 2})}};
  const auto kernel = kernel_for(device(), SourcePositions{.queries = 2}, io);
  const auto positions = device().allocate(15 * sizeof(std::int64_t));
  const auto last = device().allocate(6 * sizeof(std::int64_t));
  launch(kernel, {upload(tokens).get(), positions.get(), last.get()});
  CHECK(download<std::int64_t>(*positions) ==
        std::vector<std::int64_t>{0, 1, 2, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4});
  CHECK(download<std::int64_t>(*last) == std::vector<std::int64_t>{2, 2, -1, -1, 4, 4});
}

TEST_CASE("cached_attention: what does not fit is refused") {
  const Types in{{DType::f32, {2, 3, 8}}, {DType::i64, {2, 3}}};
  CHECK_THROWS_AS((CacheAppend{.heads = 3, .capacity = 4}.infer(in)), UsageError);
  CHECK_THROWS_AS(CacheAppend{}.infer(Types{in[0], {DType::i64, {2, 2}}}), UsageError);
  const TensorType cache{DType::f32, {2, 2, 9, 4}};
  CHECK(CachedAttention{}.infer(Types{in[0], in[1], cache, cache}) == Types{in[0]});
  CHECK_THROWS_AS(CachedAttention{}.infer(Types{in[0], in[1], cache, {DType::f32, {2, 2, 8, 4}}}),
                  UsageError);
  CHECK_THROWS_AS(CachedAttention{}.infer(Types{{DType::f32, {2, 3, 6}}, in[1], cache, cache}), UsageError);
}

}  // namespace lockstep::ops
