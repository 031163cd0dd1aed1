#include "comm/net/rejection_log.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

constexpr Seconds between_lines{1};

/// A line stays readable whatever strangers make up.
constexpr std::size_t most_reasons = 8;
constexpr const char* other_reasons = "other reasons";

}  // namespace

void RejectionLog::add(const std::string& reason, const std::string& peer) {
  const bool is_known = reasons_.contains(reason) || reasons_.size() < most_reasons;
  Rejections& same = reasons_[is_known ? reason : other_reasons];
  ++same.count;
  same.last_peer = peer;
  write_when_due();
}

void RejectionLog::write_when_due() {
  if (next_line_ && !next_line_->passed()) return;
  write();
}

Seconds RejectionLog::time_left() const {
  return reasons_.empty() || !next_line_ ? Seconds(3600) : next_line_->left();
}

void RejectionLog::write() {
  if (reasons_.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [reason, rejections] : reasons_) {
    parts.push_back(rejections.count == 1
                        ? fmt::format("closed the connection from {}: {}", rejections.last_peer, reason)
                        : fmt::format("closed {} connections, the last from {}: {}", rejections.count,
                                      rejections.last_peer, reason));
  }
  log::warn("{}: {}", port_, fmt::join(parts, "; "));
  reasons_.clear();
  next_line_ = Deadline::in(between_lines);
}

}  // namespace lockstep::comm
