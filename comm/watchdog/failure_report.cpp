#include "comm/watchdog/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/base/number.h"

namespace lockstep::comm {

namespace {

// The fields behind the lost ranks must survive the cut at most_status_bytes.
constexpr std::size_t most_lost_bytes = 200;
// A malformed text asks for no more.
constexpr int most_ranks = 65536;

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> ranks;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    const std::size_t dash = range.find('-');
    const auto first = parse_number<int>(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number<int>(range.substr(dash + 1));
    if (first && last && *first >= 0 && *last < most_ranks && std::ssize(ranks) < most_ranks) {
      for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranks;
}

}  // namespace

std::string to_text(const RankStatus& status) {
  std::string text = fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", status.rank, status.host, status.pid,
                                 status.beat, status.call, status.last ? 1 : 0,
                                 ranges_of(status.lost, most_lost_bytes), status.progress, status.where);
  text.resize(std::min(text.size(), most_status_bytes));
  return text;
}

std::optional<RankStatus> parse_status(std::string_view text) {
  std::array<std::string_view, 8> fields;
  for (std::string_view& field : fields) {
    const std::size_t tab = text.find('\t');
    if (tab == std::string_view::npos) return std::nullopt;
    field = text.substr(0, tab);
    text.remove_prefix(tab + 1);
  }
  const auto rank = parse_number<int>(fields[0]);
  const auto pid = parse_number<int>(fields[2]);
  const auto beat = parse_number<std::uint64_t>(fields[3]);
  const auto call = parse_number<std::uint32_t>(fields[4]);
  const auto progress = parse_number<std::uint64_t>(fields[7]);
  if (!rank || !pid || !beat || !call || !progress) return std::nullopt;
  return RankStatus{.rank = *rank,
                    .host = std::string(fields[1]),
                    .pid = *pid,
                    .beat = *beat,
                    .call = *call,
                    .last = fields[5] == "1",
                    .lost = parse_ranges(fields[6]),
                    .progress = *progress,
                    .where = std::string(text)};
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string FailureReport::text() const {
  std::string text = fmt::format("the run failed: {}\n", cause);
  for (const RankStatus& status : ranks) {
    const std::string process =
        status.pid == 0 ? std::string("not known") : fmt::format("pid {} on {}", status.pid, status.host);
    const bool is_missing = std::ranges::find(missing, status.rank) != missing.end();
    const char* const answer = status.last ? "" : is_missing ? "no answer; last seen " : "last seen ";
    text += fmt::format("  rank {} ({}): {}{}\n", status.rank, process, answer,
                        status.where.empty() ? "nowhere" : status.where);
  }
  return text;
}

}  // namespace lockstep::comm
