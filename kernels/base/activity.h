#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/deadline.h"

namespace lockstep {

/// What a process does beside its training steps, and whether it gets on: "unpacking train.gz, 35 %". One
/// thread begins and ends work; any thread may advance it and ask.
class Activity {
 public:
  using Description = std::function<std::string()>;
  enum class Needs {
    nobody,  ///< files and this process's own work: must advance within --timeout (StallWatch)
    peers    ///< its waits have deadlines of their own
  };

  /// Work under way, from here to the end of the scope. Of several the last begun is told.
  class Work {
   public:
    /// `activity` may be nullptr: nobody asks. `what` is called on other threads while the scope lasts.
    Work(Activity* activity, Description what, Needs needs = Needs::nobody);
    Work(Activity* activity, std::string what, Needs needs = Needs::nobody);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    void advance() noexcept;
    /// `done` of `whole`, which is not 0.
    void advance(std::uint64_t done, std::uint64_t whole) noexcept;

   private:
    friend Activity;
    Activity* activity_;
    Description what_;
    Needs needs_;
    std::atomic<int> percent_{-1};
  };

  void advance() noexcept { advances_.fetch_add(1, std::memory_order_relaxed); }
  /// How often work has advanced.
  std::uint64_t advances() const noexcept { return advances_.load(std::memory_order_relaxed); }
  /// The same and how often work has begun or ended: it stands still when this process does.
  std::uint64_t changes() const noexcept { return advances() + scopes_.load(std::memory_order_relaxed); }
  /// Empty when there is no work under way.
  std::string describe() const;
  /// Whether work is under way that needs nobody.
  bool is_alone() const;

 private:
  std::atomic<std::uint64_t> advances_{0};
  std::atomic<std::uint64_t> scopes_{0};  ///< begun and ended
  mutable std::mutex mutex_;
  std::vector<const Work*> work_;
};

/// A thread that calls `leave` when work that needs nobody has not advanced for `limit`. A read from a disk
/// that hangs, or MPI_Init, can neither be interrupted nor joined: `leave` ends the process.
class StallWatch {
 public:
  /// `leave` gets the work's description; it is called on the watch's thread, at most once. `look` is called
  /// there, too, time and again.
  StallWatch(
      const Activity& activity, Seconds limit, std::function<void(const std::string& what)> leave,
      std::function<void()> look = [] {});
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void run();

  const Activity& activity_;
  const Seconds limit_;
  const std::function<void(const std::string&)> leave_;
  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

/// A call that nothing can interrupt, where no other StallWatch looks: `leave` as there.
template <class Call>
auto in_time(Seconds limit, std::string what, std::function<void(const std::string& what)> leave, Call call) {
  Activity activity;
  const Activity::Work work(&activity, std::move(what));
  const StallWatch watch(activity, limit, std::move(leave));
  return call();
}

}  // namespace lockstep
