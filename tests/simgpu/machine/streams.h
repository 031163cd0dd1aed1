#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/simgpu/machine/handle_table.h"
#include "tests/simgpu/machine/scheduler.h"

namespace simgpu {

struct Capture;

struct Stream {
  std::string name;  ///< "stream 2", for reports
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  Actor actor = 0;
  Origin created;
  NodePtr tail;                           ///< its last operation; null: none yet
  std::shared_ptr<Capture> capture;       ///< of which it is a part at this moment
  std::vector<std::size_t> capture_tail;  ///< the graph's nodes that its next one waits for
  std::size_t lane = 0;                   ///< its number among the capture's streams
  bool legacy = false;

  bool blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  unsigned flags = 0;
  int device = 0;
  Origin created;
  NodePtr record;                    ///< of its last cudaEventRecord; null: never
  std::shared_ptr<Capture> capture;  ///< in which it was last recorded
  std::vector<std::size_t> capture_nodes;

  bool timed() const { return (flags & cudaEventDisableTiming) == 0; }
};
using EventPtr = std::shared_ptr<Event>;

/// The streams of all devices, with the legacy default stream's order: it waits for all blocking streams of
/// its device, and they wait for it.
class Streams {
 public:
  Streams(const Settings& settings, Scheduler& scheduler);

  cudaStream_t create(unsigned flags, int priority, int device, Origin origin);
  void destroy(cudaStream_t handle) { table_.remove(handle); }

  /// Null is the current device's default stream. Failure when there is no such stream.
  StreamPtr get(cudaStream_t handle) const;

  NodePtr submit(Lock& lock, Stream& stream, Operation operation, Origin origin,
                 const std::vector<NodePtr>& also_waits_for = {});
  /// What someone waits for who waits for the stream.
  std::vector<NodePtr> work_of(const Stream& stream) const;
  /// What the stream's next operation waits for.
  std::vector<NodePtr> waits_of(const Stream& stream) const;

  const auto& all() const { return table_.items(); }

 private:
  Scheduler& scheduler_;
  HandleTable<Stream, cudaStream_t> table_;
  std::vector<StreamPtr> legacy_;  ///< of each device
  int created_ = 0;
};

}  // namespace simgpu
