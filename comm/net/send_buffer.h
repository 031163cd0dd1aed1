#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "comm/net/tcp.h"

namespace lockstep::comm {

/// Bytes on their way out of a socket. What has been sent is passed over, not moved away, so that a long
/// message costs its length however small the pieces are that the socket takes.
class SendBuffer {
 public:
  explicit SendBuffer(std::string first = {}) : bytes_(std::move(first)) {}

  void add(std::string_view bytes) { bytes_ += bytes; }
  bool empty() const { return bytes_.empty(); }
  void clear() {
    bytes_.clear();
    sent_ = 0;
  }

  Transfer send_some(int socket) {
    std::string_view left = std::string_view(bytes_).substr(sent_);
    const Transfer transfer = comm::send_some(socket, left);
    sent_ = bytes_.size() - left.size();
    if (left.empty()) clear();
    return transfer;
  }

 private:
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace lockstep::comm
