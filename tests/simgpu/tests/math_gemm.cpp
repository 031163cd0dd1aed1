#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/base/error.h"
#include "kernels/cuda/gemm.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace simgpu::test {
namespace {

using lockstep::kernels::Gemm;
using lockstep::kernels::gemm_algorithms;
using lockstep::kernels::GemmSpec;
using lockstep::kernels::Precision;
using lockstep::kernels::prepare_gemm;
using lockstep::tests::contains;
using lockstep::tests::message_of;
using Epilogue = GemmSpec::Epilogue;

/// Small whole numbers, some below zero: products and their sums are exact.
std::vector<float> whole_numbers(std::int64_t count, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7 + seed) % 11 - 5));
  return values;
}

struct Problem {
  GemmSpec spec;
  std::vector<float> a, b, c, vector;

  explicit Problem(const GemmSpec& s)
      : spec(s),
        a(whole_numbers(s.m * s.k, 1)),
        b(whole_numbers(s.k * s.n, 2)),
        c(whole_numbers(s.m * s.n, 3)),
        vector(whole_numbers(std::max(s.m, s.n), 4)) {}

  float at_a(std::int64_t row, std::int64_t i) const {
    return a[static_cast<std::size_t>(spec.transpose_a ? i * spec.m + row : row * spec.k + i)];
  }
  float at_b(std::int64_t i, std::int64_t column) const {
    return b[static_cast<std::size_t>(spec.transpose_b ? column * spec.k + i : i * spec.n + column)];
  }

  std::vector<float> product() const {
    std::vector<float> result;
    for (std::int64_t row = 0; row < spec.m; ++row) {
      for (std::int64_t column = 0; column < spec.n; ++column) {
        float sum = spec.accumulate ? c[static_cast<std::size_t>(row * spec.n + column)] : 0;
        for (std::int64_t i = 0; i < spec.k; ++i) sum += at_a(row, i) * at_b(i, column);
        const bool biased = spec.epilogue == Epilogue::bias || spec.epilogue == Epilogue::bias_relu;
        if (biased) sum += vector[static_cast<std::size_t>(column)];
        const bool cut = spec.epilogue == Epilogue::relu || spec.epilogue == Epilogue::bias_relu;
        result.push_back(cut ? std::max(sum, 0.0F) : sum);
      }
    }
    return result;
  }

  std::vector<float> bias_gradient() const {
    std::vector<float> result;
    for (std::int64_t row = 0; row < spec.m; ++row) {
      float sum = 0;
      for (std::int64_t i = 0; i < spec.k; ++i) sum += at_a(row, i);
      result.push_back(sum);
    }
    return result;
  }
};

float* on_device(const std::vector<float>& values) {
  float* device = make_floats(values.size());
  set_floats(device, values);
  return device;
}

/// A problem whose operands lie on the device, and all that a launch needs.
struct Launch {
  explicit Launch(const Problem& p)
      : gemm(prepare_gemm(p.spec)),
        a(on_device(p.a)),
        b(on_device(p.b)),
        c(on_device(p.c)),
        vector(on_device(p.vector)),
        workspace(make_floats(gemm->workspace_bytes() / sizeof(float))) {}

  void run() const { gemm->launch({a, b, c, vector}, workspace, make_stream()); }

  std::shared_ptr<const Gemm> gemm;
  float *a, *b, *c, *vector, *workspace;
};

}  // namespace

TEST_CASE("products with every transposition and epilogue, overwriting and adding") {
  const FreshMachine fresh;
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  const bool accumulate = GENERATE(false, true);
  const Epilogue epilogue =
      GENERATE(Epilogue::none, Epilogue::relu, Epilogue::bias, Epilogue::bias_relu, Epilogue::bias_gradient);
  const Problem problem({5, 7, 12, transpose_a, transpose_b, epilogue, accumulate});
  const Launch launch(problem);
  launch.run();
  CHECK(read_floats(launch.c, problem.c.size()) == problem.product());
  if (epilogue == Epilogue::bias_gradient) {
    CHECK(read_floats(launch.vector, static_cast<std::size_t>(problem.spec.m)) == problem.bias_gradient());
  }
}

TEST_CASE("products of rows with gaps, in which nothing is written") {
  const FreshMachine fresh;
  const bool transpose_a = GENERATE(false, true);
  const bool accumulate = GENERATE(false, true);
  const Problem problem({5, 7, 12, transpose_a, true, Epilogue::none, accumulate});
  Problem wide = problem;
  const auto spread = [](std::vector<float>& values, std::int64_t columns, std::int64_t stride) {
    std::vector<float> with_gaps;
    for (std::size_t i = 0; i < values.size(); ++i) {
      with_gaps.push_back(values[i]);
      if (static_cast<std::int64_t>(i + 1) % columns != 0) continue;
      with_gaps.insert(with_gaps.end(), static_cast<std::size_t>(stride - columns), 99);
    }
    values = with_gaps;
  };
  wide.spec.stride_a = 16;
  wide.spec.stride_b = 13;
  wide.spec.stride_c = 8;
  spread(wide.a, transpose_a ? 5 : 12, 16);
  spread(wide.b, 12, 13);
  spread(wide.c, 7, 8);
  const Launch launch(wide);
  launch.run();
  std::vector<float> wanted = problem.product();
  spread(wanted, 7, 8);
  CHECK(read_floats(launch.c, wanted.size()) == wanted);
}

TEST_CASE("TF32 rounds both factors to ten bits of mantissa, to nearest even, and nothing else") {
  const FreshMachine fresh;
  const float bit = std::ldexp(1.0F, -10);
  Problem problem({.m = 1, .n = 4, .k = 1, .epilogue = Epilogue::bias, .precision = Precision::tf32});
  problem.a = {1 + bit / 4};
  problem.b = {1 + bit / 2, 1 + bit * 3 / 2, -1 - bit * 5 / 8, 3e38F};
  problem.vector = {bit / 8, 0, 0, 0};
  const Launch launch(problem);
  launch.run();
  const float large = read_floats(launch.c, 4)[3];
  CHECK(read_floats(launch.c, 3) == std::vector<float>{1 + bit / 8, 1 + 2 * bit, -1 - bit});
  CHECK((std::abs(large / 3e38F - 1) < bit && std::isfinite(large)));
  problem.spec.precision = Precision::ieee;
  const Launch exact(problem);
  exact.run();
  CHECK(read_floats(exact.c, 2)[1] == (1 + bit / 4) * (1 + bit * 3 / 2));
}

TEST_CASE("a library's relu may keep a NaN or lose it") {
  const bool drops = GENERATE(false, true);
  const FreshMachine fresh;
  setenv("SIMGPU_FUSED_RELU", drops ? "drops-nan" : "keeps-nan", 1);
  Problem problem({.m = 2, .n = 2, .k = 2, .epilogue = Epilogue::relu});
  problem.a = {std::nanf(""), 1, 1, 1};
  problem.b = {1, 1, 1, 1};
  const Launch launch(problem);
  launch.run();
  const std::vector<float> c = read_floats(launch.c, 4);
  CHECK((drops ? c[0] == 0 : std::isnan(c[0])));
  CHECK(c[2] == 2);
  unsetenv("SIMGPU_FUSED_RELU");
}

TEST_CASE("a library may lack the fused bias gradient of a shape") {
  const FreshMachine fresh;
  CHECK(prepare_gemm({.m = 5, .n = 7, .k = 13, .epilogue = Epilogue::bias_gradient}) == nullptr);
  CHECK(prepare_gemm({.m = 5, .n = 7, .k = 13}) != nullptr);
}

TEST_CASE("products by the algorithms that are offered, by name; by no other") {
  const FreshMachine fresh;
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  const bool accumulate = GENERATE(false, true);
  Problem problem({5, 7, 12, transpose_a, transpose_b, Epilogue::bias_relu, accumulate});
  const auto names = gemm_algorithms(problem.spec);
  CHECK(names.size() >= 2);
  for (const std::string& name : names) {
    problem.spec.algorithm = name;
    const Launch launch(problem);
    launch.run();
    CHECK(read_floats(launch.c, problem.c.size()) == problem.product());
  }
  problem.spec.algorithm = "lt_gone";
  CHECK_THROWS_AS(prepare_gemm(problem.spec), lockstep::DeviceError);
  CHECK(gemm_algorithms({.m = 5, .n = 7, .k = 13, .epilogue = Epilogue::bias_gradient}).empty());
}

TEST_CASE("gelu as a product's end: legal in half types, in rows of eights, and with a place for its input") {
  const FreshMachine fresh;
  const auto offered = [](GemmSpec spec) {
    spec.m = 4;
    spec.k = 12;
    return prepare_gemm(spec) != nullptr;
  };
  using lockstep::DType;
  const GemmSpec legal{.n = 16, .epilogue = Epilogue::gelu, .dtype = DType::bf16, .result = DType::bf16};
  GemmSpec odd = legal, wide = legal, mixed = legal, adding = legal;
  odd.n = 12;
  wide.dtype = wide.result = DType::f32;
  mixed.result = DType::f32;
  adding.accumulate = true;
  CHECK(offered(legal));
  CHECK_FALSE((offered(odd) || offered(wide) || offered(mixed) || offered(adding)));
  GemmSpec keeps = legal;
  keeps.m = keeps.n = keeps.k = 16;
  keeps.keeps_pre = true;
  const Problem problem(keeps);
  const Launch launch(problem);
  const auto run_with = [&](float* pre) {
    launch.gemm->launch({launch.a, launch.b, launch.c, nullptr, pre}, launch.workspace, make_stream());
  };
  CHECK(mistake_in([&] { run_with(nullptr); }) == "host pointer");
  CHECK(mistake_in([&] { run_with(make_floats(256) + 1); }) == "misaligned operand");
  CHECK(mistake_in([&] { run_with(make_floats(256)); }) == "none");
}

TEST_CASE("a product's operands are aligned device memory") {
  const FreshMachine fresh;
  const Problem problem({4, 4, 4});
  Launch launch(problem);
  CHECK(mistake_in([&] { launch.run(); }) == "none");
  float* const whole = launch.b;
  launch.b = whole + 1;
  CHECK(mistake_in([&] { launch.run(); }) == "misaligned operand");
  std::vector<float> host = problem.b;
  launch.b = host.data();
  CHECK(mistake_in([&] { launch.run(); }) == "host pointer");
}

TEST_CASE("a product's workspace begins at 256 bytes, its operands may begin at 64") {
  const FreshMachine fresh;
  const Problem problem({4, 4, 4});
  Launch launch(problem);
  const std::size_t line = 64 / sizeof(float);  // as many as b has
  const std::size_t workspace = launch.gemm->workspace_bytes() / sizeof(float);
  float* const begin = make_floats(workspace + 6 * line);
  for (std::size_t lines = 1; lines < 4; ++lines) {
    CAPTURE(lines);
    launch.workspace = begin + lines * line;
    CHECK(mistake_in([&] { launch.run(); }) == "misaligned workspace");
  }
  launch.workspace = begin + 4 * line;
  launch.b = launch.workspace + workspace + line;
  CHECK(mistake_in([&] { launch.run(); }) == "none");
}

TEST_CASE("a workspace that is an operand or the result too spoils the product") {
  const FreshMachine fresh;
  const Problem problem({16, 16, 32});
  Launch launch(problem);
  launch.workspace = GENERATE(false, true) ? launch.c : launch.a;
  launch.run();
  CHECK(std::isnan(read_floats(launch.c, 1)[0]));
}

TEST_CASE("an error that an earlier call has left is not for a library to find") {
  const FreshMachine fresh;
  const Problem problem({4, 4, 4});
  const Launch launch(problem);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(mistake_in([&] { launch.run(); }) == "error left behind");
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(mistake_in([&] { launch.run(); }) == "none");
}

TEST_CASE("a library's refusal has its words, unless the GPU has failed") {
  const bool has_failed = GENERATE(false, true);
  const FreshMachine fresh([=](Settings& settings) {
    settings.policy = Policy::eager;
    (has_failed ? settings.fail_run : settings.fail_call) = 1;
    (has_failed ? settings.fail_kernel : settings.fail_function) = "gemm";
  });
  const Problem problem({4, 4, 4});
  const Launch launch(problem);
  CHECK_THAT(message_of<lockstep::DeviceError>([&] { launch.run(); }),
             contains(has_failed ? "cuda: cannot launch a product: an illegal memory access"
                                 : "cuBLASLt: cannot launch a product: too many resources"));
}

}  // namespace simgpu::test
