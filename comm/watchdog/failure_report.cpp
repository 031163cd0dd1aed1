#include "comm/watchdog/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/base/number.h"

namespace lockstep::comm {

namespace {

std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (const auto rank = parse_number<int>(text.substr(0, comma))) ranks.push_back(*rank);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranks;
}

}  // namespace

std::string to_text(const RankStatus& status) {
  std::string text = fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", status.rank, status.host, status.pid,
                                 status.beat, status.call, status.last ? 1 : 0, fmt::join(status.lost, ","),
                                 status.progress, status.where);
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
                    .lost = parse_ranks(fields[6]),
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
