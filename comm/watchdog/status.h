#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// What a rank says of itself once a second, and a last time when its group has failed.
struct RankStatus {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::uint64_t beat = 0;  ///< grows with every status
  std::uint32_t call = 0;  ///< number of the collective that it is in, or was in last
  bool last = false;       ///< it knows of the failure
  std::string where;       ///< "step 12, forward conv1; in all-reduce 17 (bucket 0, fc1.weight)"
};

/// One line, cut to `most_bytes`; nothing when the text is not whole.
std::string to_text(const RankStatus& status, std::size_t most_bytes);
std::optional<RankStatus> parse_status(std::string_view text);

/// Why a group failed and where each rank was.
struct FailureReport {
  std::string cause;              ///< the first one, the same on all ranks
  std::vector<RankStatus> ranks;  ///< by rank; `last` is false for those that did not answer any more
  std::vector<int> missing;       ///< those

  /// The lowest rank that answered prints the report.
  int reporter() const;
  std::string text() const;
};

}  // namespace lockstep::comm
