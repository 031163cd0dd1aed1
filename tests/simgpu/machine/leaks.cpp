#include <string>

#include "tests/simgpu/machine/machine.h"

namespace simgpu {
namespace {

/// "stream from x+0x12, stream from x+0x34": the first few, and how many more.
class LeakList {
 public:
  void add(const std::string& what) {
    constexpr int shown = 10;
    if (++count_ <= shown) text_ += "\n  " + what;
  }

  int count() const { return count_; }
  const std::string& text() const { return text_; }

 private:
  int count_ = 0;
  std::string text_;
};

}  // namespace

void Machine::report_leaks() const {
  LeakList leaks;
  for (const auto& [begin, block] : memory.blocks()) {
    if (block.freed_by.empty()) leaks.add(block.describe());
  }
  for (const auto& [handle, stream] : streams.all())
    leaks.add(stream->name + " from " + stream->created.text());
  for (const auto& [handle, event] : events.items()) leaks.add("an event from " + event->created.text());
  for (const auto& [handle, graph] : graphs.items()) leaks.add("a graph from " + graph->created.text());
  for (const auto& [handle, exec] : graph_execs.items()) {
    leaks.add("an instantiated graph from " + exec->created().text());
  }
  if (leaks.count() == 0) return;
  report_mistake("leaked handle",
                 std::to_string(leaks.count()) + " not given back (at most 10 are shown):" + leaks.text());
}

}  // namespace simgpu
