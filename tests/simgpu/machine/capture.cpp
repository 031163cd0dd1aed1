#include "tests/simgpu/machine/capture.h"

#include <algorithm>
#include <utility>

namespace simgpu {
namespace {

void add_once(std::vector<std::size_t>& nodes, const std::vector<std::size_t>& more) {
  for (const auto node : more) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
}

/// For each node whether it comes before the end of a stream whose last nodes are `tail`.
std::vector<bool> before_end(const Graph& graph, const std::vector<std::size_t>& tail) {
  std::vector<bool> before(graph.nodes.size());
  for (const auto node : tail) before[node] = true;
  for (std::size_t node = graph.nodes.size(); node-- > 0;) {
    if (!before[node]) continue;
    for (const auto earlier : graph.nodes[node].waits_for) before[earlier] = true;
  }
  return before;
}

bool all_joined(const Capture& capture) {
  const auto before = before_end(*capture.graph, capture.origin->capture_tail);
  const auto joined = [&](std::size_t node) { return before[node]; };
  return std::all_of(capture.members.begin(), capture.members.end(), [&](const StreamPtr& stream) {
    return std::all_of(stream->capture_tail.begin(), stream->capture_tail.end(), joined);
  });
}

bool watches_this_thread(const Capture& capture) {
  if (thread_capture_mode() == cudaStreamCaptureModeRelaxed) return false;
  if (capture.mode == cudaStreamCaptureModeGlobal) {
    return thread_capture_mode() == cudaStreamCaptureModeGlobal ||
           capture.thread == std::this_thread::get_id();
  }
  return capture.mode == cudaStreamCaptureModeThreadLocal && capture.thread == std::this_thread::get_id();
}

}  // namespace

cudaStreamCaptureMode& thread_capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

Captures::~Captures() {
  while (!running_.empty()) leave(CapturePtr(running_.back()));  // streams and captures hold each other
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

void Captures::begin(const StreamPtr& stream, cudaStreamCaptureMode mode, Origin origin) {
  require(!stream->legacy, cudaErrorStreamCaptureUnsupported);
  require(!stream->capture, cudaErrorIllegalState);
  const auto capture = std::make_shared<Capture>();
  capture->id = ++begun_;
  capture->graph = std::make_shared<Graph>();
  capture->graph->created = std::move(origin);
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  join(capture, stream);
  running_.push_back(capture);
}

std::shared_ptr<Graph> Captures::end(const StreamPtr& stream) {
  const CapturePtr capture = stream->capture;
  require(capture != nullptr, cudaErrorIllegalState);
  require(capture->origin == stream, cudaErrorStreamCaptureUnmatched);
  require(capture->mode == cudaStreamCaptureModeRelaxed || capture->thread == std::this_thread::get_id(),
          cudaErrorStreamCaptureWrongThread);
  const bool joined = all_joined(*capture);
  leave(capture);
  require(!capture->invalid, cudaErrorStreamCaptureInvalidated);
  require(joined, cudaErrorStreamCaptureUnjoined);
  return capture->graph;
}

void Captures::join(const CapturePtr& capture, const StreamPtr& stream) {
  stream->capture = capture;
  stream->lane = capture->graph->lanes++;
  stream->capture_tail.clear();
  capture->members.push_back(stream);
}

void Captures::leave(const CapturePtr& capture) {
  for (const StreamPtr& stream : capture->members) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  capture->members.clear();
  running_.erase(std::remove(running_.begin(), running_.end(), capture), running_.end());
}

void Captures::add(Stream& stream, Operation operation, Origin origin) {
  require(!stream.capture->invalid, cudaErrorStreamCaptureInvalidated);
  Graph& graph = *stream.capture->graph;
  if (!operation.site.empty()) origin.site = operation.site;
  auto info = std::make_shared<NodeInfo>(
      NodeInfo{operation.name, "a graph's part from " + stream.name, std::move(origin)});
  graph.nodes.push_back({std::move(operation), std::move(info), stream.device, stream.priority, stream.lane,
                         stream.capture_tail});
  stream.capture_tail = {graph.nodes.size() - 1};
}

void Captures::record(Stream& stream, Event& event) {
  require(!stream.capture->invalid, cudaErrorStreamCaptureInvalidated);
  event.capture = stream.capture;
  event.capture_nodes = stream.capture_tail;
}

void Captures::wait(const StreamPtr& stream, const Event& event) {
  const bool event_is_captured = event.capture != nullptr;
  if (!event_is_captured) invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  require(!event.capture->invalid, cudaErrorStreamCaptureInvalidated);
  const bool ended = std::find(running_.begin(), running_.end(), event.capture) == running_.end();
  if (!stream->capture) {
    require(!ended, cudaErrorCapturedEvent);
    if (stream->legacy) invalidate(*event.capture, cudaErrorStreamCaptureImplicit);
    join(event.capture, stream);
  } else if (ended) {
    invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  } else if (stream->capture != event.capture) {
    event.capture->invalid = true;
    invalidate(*stream->capture, cudaErrorStreamCaptureMerge);
  }
  add_once(stream->capture_tail, event.capture_nodes);
}

void Captures::invalidate(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  throw Failure{error};
}

void Captures::refuse_unsafe_call() {
  bool refused = false;
  for (const CapturePtr& capture : running_) {
    if (!watches_this_thread(*capture)) continue;
    capture->invalid = true;
    refused = true;
  }
  require(!refused, cudaErrorStreamCaptureUnsupported);
}

void Captures::refuse_wait(const Stream& stream) {
  if (stream.capture) invalidate(*stream.capture, cudaErrorStreamCaptureUnsupported);
  refuse_implicit(stream);
}

void Captures::refuse_implicit(const Stream& stream) {
  if (!stream.legacy) return;
  for (const CapturePtr& capture : running_) {
    for (const StreamPtr& member : capture->members) {
      if (member->blocking() && member->device == stream.device)
        invalidate(*capture, cudaErrorStreamCaptureImplicit);
    }
  }
}

void Captures::refuse_wait_for_device(int device) {
  for (const CapturePtr& capture : running_) {
    for (const StreamPtr& member : capture->members) {
      if (member->device == device) invalidate(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
}

}  // namespace simgpu
