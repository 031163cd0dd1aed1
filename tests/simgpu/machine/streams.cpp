#include "tests/simgpu/machine/streams.h"

#include <utility>

#include "tests/simgpu/machine/running.h"

namespace simgpu {

Streams::Streams(const Settings& settings, Scheduler& scheduler) : scheduler_(scheduler), table_(1) {
  for (int device = 0; device < settings.devices; ++device) {
    legacy_.push_back(std::make_shared<Stream>());
    Stream& stream = *legacy_.back();
    stream.name = "the default stream of device " + std::to_string(device);
    stream.device = device;
    stream.actor = scheduler_.new_actor();
    stream.legacy = true;
  }
}

cudaStream_t Streams::create(unsigned flags, int priority, int device, Origin origin) {
  const auto stream = std::make_shared<Stream>();
  stream->name = "stream " + std::to_string(++created_);
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->actor = scheduler_.new_actor();
  stream->created = std::move(origin);
  return table_.add(stream);
}

StreamPtr Streams::get(cudaStream_t handle) const {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return legacy_.at(static_cast<std::size_t>(running().device));
  }
  return table_.get(handle);
}

std::vector<NodePtr> Streams::work_of(const Stream& stream) const {
  std::vector<NodePtr> work;
  if (stream.tail) work.push_back(stream.tail);
  if (!stream.legacy) return work;
  for (const auto& [handle, other] : table_.items()) {
    if (other->tail && other->device == stream.device && other->blocking()) work.push_back(other->tail);
  }
  return work;
}

std::vector<NodePtr> Streams::waits_of(const Stream& stream) const {
  auto waits = work_of(stream);
  const auto& legacy = legacy_[static_cast<std::size_t>(stream.device)];
  if (!stream.legacy && stream.blocking() && legacy->tail) waits.push_back(legacy->tail);
  return waits;
}

NodePtr Streams::submit(Lock& lock, Stream& stream, Operation operation, Origin origin,
                        const std::vector<NodePtr>& also_waits_for) {
  auto waits = waits_of(stream);
  waits.insert(waits.end(), also_waits_for.begin(), also_waits_for.end());
  if (!operation.site.empty()) origin.site = operation.site;
  auto info = std::make_shared<NodeInfo>(NodeInfo{operation.name, stream.name, std::move(origin)});
  const auto node = scheduler_.schedule(lock, {std::move(operation), std::move(info), stream.device,
                                               stream.priority, stream.actor, std::move(waits)});
  stream.tail = node;
  return node;
}

}  // namespace simgpu
