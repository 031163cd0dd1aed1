#include "comm/shm/status_slot.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/catch.h"

namespace lockstep::comm {
namespace {

TEST_CASE("a status_slot says what was written last, cut where it is too long, and nothing before") {
  const auto status_slot = std::make_unique<StatusSlot>();
  CHECK(status_slot->read().empty());
  status_slot->write("in conv1");
  CHECK(status_slot->read() == "in conv1");
  status_slot->write("");
  CHECK(status_slot->read().empty());
  status_slot->write(std::string(2 * StatusSlot::most_bytes, 'x'));
  CHECK(status_slot->read() == std::string(StatusSlot::most_bytes, 'x'));
}

TEST_CASE("a reader never gets parts of two texts, however fast they follow each other") {
  const auto status_slot = std::make_unique<StatusSlot>();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 100'000; ++i)
      status_slot->write(std::string(StatusSlot::most_bytes, static_cast<char>('a' + i % 26)));
    done = true;
  });
  int torn = 0;
  while (!done) {
    const std::string text = status_slot->read();
    torn += std::adjacent_find(text.begin(), text.end(), std::not_equal_to<>()) != text.end();
  }
  writer.join();
  CHECK(torn == 0);
}

}  // namespace
}  // namespace lockstep::comm
