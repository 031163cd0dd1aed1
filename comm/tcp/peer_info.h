#pragma once

#include <string>

namespace lockstep::comm {

/// What a rank publishes to all others before they connect.
struct PeerInfo {
  std::string node;  ///< equal on ranks that can share memory
  std::string host;
  int pid = 0;
  std::string address;  ///< where it listens for data connections
  int port = 0;
};

/// "rank 3 (pid 123 on gpu07)"
std::string name_of(int rank, const PeerInfo& peer);

std::string encode(const PeerInfo& peer);
/// CommError when `text`, which rank `rank` published, is none.
PeerInfo decode_peer_info(const std::string& text, int rank);

}  // namespace lockstep::comm
