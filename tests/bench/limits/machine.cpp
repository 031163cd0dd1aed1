#include "tests/bench/limits/machine.h"

#include <cstring>
#include <dnnl.hpp>
#include <string_view>
#include <vector>

#include "tests/bench/limits/step.h"

namespace lockstep::bench {
namespace {

using dnnl::memory;

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

memory zeroed(const memory::desc& desc, const dnnl::engine& engine) {
  memory made(desc, engine);
  std::memset(made.get_data_handle(), 0, desc.get_size());
  return made;
}

}  // namespace

double matmul_gflops(std::int64_t m, std::int64_t k, std::int64_t n, bool bf16) {
  const auto type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  try {
    const auto description =
        describe(engine, {{m, k}, type, memory::format_tag::any}, {{k, n}, type, memory::format_tag::any},
                 {{m, n}, type, memory::format_tag::any});
    if (std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos) return 0;
    const memory a = zeroed(description.src_desc(), engine);
    const memory b = zeroed(description.weights_desc(), engine);
    const memory c = zeroed(description.dst_desc(), engine);
    const dnnl::matmul product(description);
    const double seconds = shortest([&] {
      product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream.wait();
    });
    return 2e-9 * static_cast<double>(m * k * n) / seconds;
  } catch (const dnnl::error&) {
    return 0;
  }
}

double memcpy_gigabytes(std::int64_t megabytes, int threads) {
  const std::size_t bytes = static_cast<std::size_t>(megabytes) << 20;
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  const double seconds = shortest([&] {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * part;
      std::memcpy(to.data() + at, from.data() + at, part);
    }
  });
  return 2e-9 * static_cast<double>(bytes) / seconds;
}

}  // namespace lockstep::bench
