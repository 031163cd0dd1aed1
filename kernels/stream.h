#pragma once

namespace lockstep::kernels {

/// A point in a stream, once it has been recorded there.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether the work before it is done. Does not block.
  virtual bool reached() = 0;
  /// Blocks until it is reached.
  virtual void synchronize() = 0;
};

/// An in-order queue of launches. On the CPU a launch runs at once on the calling thread and its team.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Blocks until all that was launched here is done.
  virtual void synchronize() = 0;
  virtual void record(Event& event) = 0;
  /// Later launches here run after `event`, as it was last recorded.
  virtual void wait(Event& event) = 0;
};

/// Launches on one or more streams, recorded once and launched again as a whole.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  virtual void launch(Stream& stream) = 0;
};

enum class StreamPriority { normal, high };

}  // namespace lockstep::kernels
