#include "comm/shm/segment.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/catch.h"

namespace lockstep::comm {
namespace {

TEST_CASE("a status slot holds the last text, cut to its size, and is empty before") {
  const auto slot = std::make_unique<StatusSlot>();
  CHECK(slot->read().empty());
  slot->write("in conv1");
  CHECK(slot->read() == "in conv1");
  slot->write("");
  CHECK(slot->read().empty());
  slot->write(std::string(2 * StatusSlot::most_bytes, 'x'));
  CHECK(slot->read() == std::string(StatusSlot::most_bytes, 'x'));
}

TEST_CASE("a reader never gets parts of two texts") {
  const auto slot = std::make_unique<StatusSlot>();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 100'000; ++i)
      slot->write(std::string(StatusSlot::most_bytes, static_cast<char>('a' + i % 26)));
    done = true;
  });
  int torn = 0;
  while (!done) {
    const std::string text = slot->read();
    torn += std::adjacent_find(text.begin(), text.end(), std::not_equal_to<>()) != text.end();
  }
  writer.join();
  CHECK(torn == 0);
}

}  // namespace
}  // namespace lockstep::comm
