#include "tests/simgpu/machine/trace.h"

#include <nlohmann/json.hpp>

namespace simgpu {
namespace {

const char* name_of(const Operation& operation) {
  if (!operation.run) return "mark";
  switch (operation.kind) {
    case Operation::Kind::kernel:
      return "kernel";
    case Operation::Kind::copy:
      return "copy";
    case Operation::Kind::fill:
      return "fill";
    case Operation::Kind::library:
      return "library";
    case Operation::Kind::host_call:
      return "host call";
    case Operation::Kind::collective:
      return "collective";
  }
  return "?";
}

}  // namespace

Trace::Trace(const std::string& path) {
  if (path.empty()) return;
  file_.open(path);
  if (!file_) report_mistake("wrong setting", "SIMGPU_TRACE: cannot write " + path);
}

void Trace::enqueued(const Node& node) {
  if (!file_.is_open()) return;
  auto after = nlohmann::ordered_json::array();
  for (const NodePtr& before : node.waits_for) after.push_back(before->sequence);
  const nlohmann::ordered_json line{{"event", "enqueue"},
                                    {"operation", node.sequence},
                                    {"device", node.device},
                                    {"stream", node.info->where},
                                    {"kind", name_of(node.operation)},
                                    {"name", node.info->name},
                                    {"from", node.info->origin.text()},
                                    {"after", after}};
  file_ << line << std::endl;  // whole lines also of a process that is killed
}

void Trace::note(const char* event, const Node& node) {
  if (!file_.is_open()) return;
  file_ << nlohmann::ordered_json{{"event", event}, {"operation", node.sequence}} << std::endl;
}

}  // namespace simgpu
