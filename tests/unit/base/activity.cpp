#include "kernels/base/activity.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/child_process.h"

using namespace lockstep;

namespace {

/// What a watch of 0.2 s said while `work` lasted; empty when nothing.
template <class Action>
std::string said_while(Activity& activity, Action work) {
  std::promise<std::string> promise;
  auto said = promise.get_future();
  {
    const StallWatch watch(activity, Seconds(0.2), [&](const std::string& what) { promise.set_value(what); });
    work(said);
  }
  return said.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? said.get() : std::string();
}

void wait_for(const std::future<std::string>& said) {
  CHECK(said.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

/// The watch has looked meanwhile, several times.
void spend(Seconds time) {
  for (const Deadline end = Deadline::in(time); !end.passed();) std::this_thread::yield();
}

}  // namespace

TEST_CASE("the last begun work is told, with its part of the whole") {
  Activity activity;
  CHECK(activity.describe().empty());
  Activity::Work outer(&activity, std::string("evaluating"), Activity::Needs::peers);
  outer.advance(7, 20);
  CHECK(activity.describe() == "evaluating, 35 %");
  CHECK_FALSE(activity.is_alone());
  {
    const Activity::Work inner(&activity, [] { return std::string("waiting for batch 3"); });
    CHECK(activity.describe() == "waiting for batch 3");
    CHECK(activity.is_alone());
  }
  CHECK(activity.describe() == "evaluating, 35 %");
  CHECK(activity.advances() == 1);
  CHECK(activity.changes() == 4);
  Activity::Work(nullptr, std::string("nobody asks")).advance(1, 2);
}

TEST_CASE("a process that was suspended for longer than the limit has not hung") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const auto wait_for_byte = [&] {
    char byte = 0;
    return ::read(pipe[0], &byte, 1);
  };
  tests::ChildProcess child([&] {
    Activity activity;
    const Activity::Work work(&activity, std::string("reading x"));
    const StallWatch watch(activity, Seconds(1), [](const std::string&) { ::_exit(4); });
    wait_for_byte();
    return 0;
  });
  spend(Seconds(0.1));
  ::kill(child.pid(), SIGSTOP);
  spend(Seconds(1.2));
  ::kill(child.pid(), SIGCONT);
  spend(Seconds(0.3));
  REQUIRE(::write(pipe[1], "x", 1) == 1);
  CHECK(child.wait() == 0);
}

TEST_CASE("work that hangs is told, by what it does") {
  Activity activity;
  const Activity::Work outer(&activity, std::string("evaluating"), Activity::Needs::peers);
  const Activity::Work work(&activity, std::string("reading x"));
  CHECK(said_while(activity, wait_for) == "reading x");
}

TEST_CASE("work that advances, and work that needs peers, may take longer than the limit") {
  Activity activity;
  CHECK(said_while(activity, [&](auto&) {
          Activity::Work work(&activity, std::string("reading x"));
          for (const Deadline end = Deadline::in(Seconds(1)); !end.passed();) work.advance();
          const Activity::Work peers(&activity, std::string("evaluating"), Activity::Needs::peers);
          spend(Seconds(0.5));
        }).empty());
}
