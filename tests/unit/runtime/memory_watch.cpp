#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "runtime/output/metrics.h"
#include "tests/support/catch.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/ranks.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t bytes = std::size_t{64} << 20;

/// Of no process before it touches them.
class Pages {
 public:
  explicit Pages(int visibility)
      : start_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, visibility | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(start_ != MAP_FAILED);
  }
  ~Pages() { ::munmap(start_, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void touch() const { std::memset(start_, 1, bytes); }

 private:
  void* const start_;
};

/// Sanitizers have bytes of their own for each that is touched.
void check_growth(std::int64_t growth, double share) {
  const double times = static_cast<double>(growth) / static_cast<double>(bytes);
  CHECK(times > share - 0.05);
  if (tests::slowness == 1) CHECK(times < share + 0.05);
}

TEST_CASE("the peak of memory stays when the memory is given back") {
  MemoryWatch watch;
  const std::int64_t before = watch.peak_bytes();
  {
    const Pages pages(MAP_PRIVATE);
    CHECK(watch.peak_bytes() < before + static_cast<std::int64_t>(bytes / 2));
    pages.touch();
    watch.sample();
  }
  check_growth(watch.peak_bytes() - before, 1);
}

TEST_CASE("a page that two processes map counts half in each") {
  const Pages shared(MAP_SHARED);
  int touched[2];
  REQUIRE(::pipe(touched) == 0);
  const comm::testing::RankProcess other([&] {
    shared.touch();
    if (::write(touched[1], "x", 1) != 1) throw std::runtime_error("write");
    ::pause();
  });
  ::close(touched[1]);  // its end is that of the other process
  char byte = 0;
  REQUIRE(::read(touched[0], &byte, 1) == 1);
  ::close(touched[0]);
  MemoryWatch watch;
  const std::int64_t before = watch.peak_bytes();
  shared.touch();
  check_growth(watch.peak_bytes() - before, 0.5);
}

}  // namespace
}  // namespace lockstep::runtime
