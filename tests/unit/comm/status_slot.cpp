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

TEST_CASE("a note says what was written last, cut where it is too long, and nothing before") {
  const auto note = std::make_unique<Note>();
  CHECK(note->read().empty());
  note->write("in conv1");
  CHECK(note->read() == "in conv1");
  note->write("");
  CHECK(note->read().empty());
  note->write(std::string(2 * Note::most_bytes, 'x'));
  CHECK(note->read() == std::string(Note::most_bytes, 'x'));
}

TEST_CASE("a reader never gets parts of two texts, however fast they follow each other") {
  const auto note = std::make_unique<Note>();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 100'000; ++i)
      note->write(std::string(Note::most_bytes, static_cast<char>('a' + i % 26)));
    done = true;
  });
  int torn = 0;
  while (!done) {
    const std::string text = note->read();
    torn += std::adjacent_find(text.begin(), text.end(), std::not_equal_to<>()) != text.end();
  }
  writer.join();
  CHECK(torn == 0);
}

}  // namespace
}  // namespace lockstep::comm
