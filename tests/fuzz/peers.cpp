// What ranks tell each other through the store: who they are, and where they are.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "comm/tcp/peer_info.h"
#include "comm/watchdog/failure_report.h"
#include "kernels/base/error.h"

using namespace lockstep;
using namespace lockstep::comm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    // A number that is cut to 32 bits does not come back.
    const PeerInfo peer = decode_peer_info(text, 1);
    if (decode_peer_info(encode(peer), 1).address != peer.address) std::abort();
  } catch (const CommError&) {
  }
  if (const auto status = parse_status(text)) {
    const auto again = parse_status(to_text(*status));
    if (to_text(*status).size() < most_status_bytes && (!again || again->lost != status->lost)) std::abort();
    static_cast<void>(FailureReport{.cause = "x", .ranks = {*status}, .missing = status->lost}.text());
  }
  return 0;
}
