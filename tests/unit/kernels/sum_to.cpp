#include "kernels/sum_to.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// By the definition, in double, with the sums of the magnitudes.
struct Sums {
  std::vector<double> sums, magnitudes;
};

Sums sums_of(const Values& x, const Shape& to) {
  const auto count = static_cast<std::size_t>(to.elements());
  Sums result{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t n = 0; n < x.data.size(); ++n) {
    auto rest = static_cast<std::int64_t>(n);
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (std::size_t axis = x.shape.rank(); axis-- > 0; rest /= x.shape[axis]) {
      const std::size_t missing = x.shape.rank() - to.rank();
      if (axis < missing) break;
      if (to[axis - missing] != 1) at += rest % x.shape[axis] * stride;
      stride *= to[axis - missing];
    }
    result.sums[static_cast<std::size_t>(at)] += x.data[n];
    result.magnitudes[static_cast<std::size_t>(at)] += std::abs(x.data[n]);
  }
  return result;
}

struct Case {
  Shape from, to;
};

const std::vector<Case> cases{{{7, 17}, {17}},
                              {{7, 17}, {7, 1}},
                              {{7, 17}, {1}},
                              {{7, 17}, {}},
                              {{7, 17}, {7, 17}},
                              {{2, 3, 5, 7}, {3, 1, 1}},
                              {{2, 3, 5, 7}, {2, 1, 5, 1}},
                              {{2, 3, 5, 7}, {1, 3, 1, 7}},
                              {{64, 32, 37, 3}, {32, 1, 1}},
                              {{5000, 130}, {130}},
                              {{5000, 130}, {5000, 1}},
                              {{3, 70001}, {1}},
                              {{2, 300000}, {2, 1}},
                              {{30, 5003}, {5003}}};

std::vector<float> bits_with(int threads, const Case& test) {
  std::vector<float> sums(static_cast<std::size_t>(test.to.elements()));
  std::thread([&] {  // a device belongs to the thread that made it
    const auto cpu = make_cpu_device(threads);
    const KernelIo io{{{DType::f32, test.from, {}}}, {{DType::f32, test.to, {}}}};
    const auto kernel = kernel_for(*cpu, SumTo{}, io);
    std::vector<float> x(static_cast<std::size_t>(test.from.elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0F / static_cast<float>(i % 1013 + 1);
    const auto workspace = cpu->allocate(kernel->workspace_bytes());
    const std::array<void*, 2> addresses{x.data(), sums.data()};
    kernel->bind(addresses, workspace->data())->launch(*cpu->make_stream());
  })
      .join();
  return sums;
}

}  // namespace

TEST_CASE("sum_to: sums over what was broadcast") {
  for (const auto& [from, to] : cases) {
    if (!device().is_cpu() && from.elements() > 250'000) continue;
    const Values x = random_values(from, 9);
    const Values y = run(SumTo{}, {x}, {to}, Layouts::row_major)[0];
    const Sums wanted = sums_of(x, to);
    INFO(from.str() << " to " << to.str());
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      // f32: partial sums of multiples of 1/64 below 2^18 are exact, so is their sum.
      if (wanted.magnitudes[i] < 0x1p18) REQUIRE(y.data[i] == wanted.sums[i]);
    }
  }
}

TEST_CASE("sum_to: pictures keep their layout, and their sum has the matching one") {
  struct Form {
    const char* name;
    Layout layout;
  };
  for (const Shape& from : {Shape{2, 17, 3, 5}, Shape{3, 70, 2, 3}, Shape{2, 32, 1, 5}}) {
    const std::int64_t padded = (from[1] + 15) / 16 * 16;
    const Form forms[] = {{"channels-last", channels_last(from)},
                          {"blocked",
                           {{from[0], padded, from[2], from[3]},
                            {padded * from[2] * from[3], 16 * from[2] * from[3], 16 * from[3], 16},
                            {{1, 16}}}}};
    // The sum of pictures that were not broadcast is themselves.
    for (const Shape& to : {from, Shape{from[0], from[1], 1, 1}, Shape{from[1], 1, 1}, Shape{from[3]},
                            Shape{from[0], 1, from[2], 1}, Shape{1}}) {
      for (const Form& form : forms) {
        const Values x = random_values(from, 9);
        KernelIo io = make_io({x}, {to}, Layouts::chosen);
        io.inputs[0].layout = form.layout;
        choose_layouts(device(), SumTo{}, io);
        INFO(from.str() << " to " << to.str() << ", " << form.name);
        CHECK(*io.inputs[0].layout == form.layout);
        const Values y = run_prepared(kernel_for(device(), SumTo{}, io), io, {x})[0];
        CHECK(y.data == sums_of(x, to).sums);  // multiples of 1/64, exact in f32
      }
    }
  }
}

TEST_CASE("sum_to: bf16 is summed in f32 and rounded once") {
  for (const auto& [from, to] : {Case{{7, 17}, {17}}, Case{{7, 1700}, {7, 1}},
                                 Case{{2, 19, 5, 7}, {2, 19, 1, 1}}, Case{{64, 32, 37, 3}, {32, 1, 1}}}) {
    const Values x = random_values(from, 9);
    KernelIo io{{{DType::bf16, from, {}}}, {{DType::bf16, to, {}}}};
    choose_layouts(device(), SumTo{}, io);
    const Values y = run_prepared(kernel_for(device(), SumTo{}, io), io, {x})[0];
    const Sums wanted = sums_of(x, to);
    INFO(from.str() << " to " << to.str());
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      REQUIRE(std::abs(y.data[i] - wanted.sums[i]) <= 0x1p-8 * std::abs(wanted.sums[i]));
    }
  }
}

TEST_CASE("sum_to: the CPU's order is fixed by the shapes, whatever the team") {
  if (!device().is_cpu()) return;
  for (const Case& test : cases) {
    INFO(test.from.str() << " to " << test.to.str());
    const std::vector<float> one = bits_with(1, test);
    CHECK(bits_with(2, test) == one);
    CHECK(bits_with(3, test) == one);
  }
}
