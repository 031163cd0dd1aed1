// What ranks tell each other through the store: who they are, and where they are.
#include <algorithm>
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
    // Of many lost ranks the last ones are left out.
    const bool is_whole = to_text(*status).size() < most_status_bytes;
    if (is_whole && (!again || again->lost.size() > status->lost.size() ||
                     !std::equal(again->lost.begin(), again->lost.end(), status->lost.begin())))
      std::abort();
    static_cast<void>(FailureReport{.cause = "x", .ranks = {*status}, .missing = status->lost}.text());
  }
  return 0;
}
