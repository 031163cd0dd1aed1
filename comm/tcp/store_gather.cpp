#include "comm/tcp/store_gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/tcp/mesh.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

// An abort by a rank of this node wakes no socket: it is looked for in between, the less often the longer the
// others let wait, as the store has to answer all of them.
constexpr Seconds shortest_wait{0.02};
constexpr Seconds longest_wait{0.16};

std::string keys_of(std::uint64_t number) {
  return fmt::format("gather/{}/", number);
}

}  // namespace

std::vector<std::string> StoreGather::operator()(std::string_view mine) {
  const int rank = node_.rank();
  ++number_;
  start_ = Clock::now();
  store_.set(key_of(rank, number_), fmt::format("{} {}", node_.call().signature(), mine),
             Deadline::in(node_.timeout()));
  std::vector<std::string> texts;
  while (texts.size() < peers_.size()) wait_for_more(texts);
  // A rank that set this number has read all texts of the last one. Ranks may have been waited for past the
  // deadline.
  if (number_ > 1) store_.erase(key_of(rank, number_ - 1), Deadline::in(node_.timeout()));
  return texts;
}

void StoreGather::wait_for_more(std::vector<std::string>& texts) {
  const int rank = static_cast<int>(texts.size());
  Patience patience(node_.rank(), node_.timeout(), start_, status_of_);
  Deadline look = Deadline::at(Patience::first_look(start_, node_.timeout()));
  for (Seconds wait = shortest_wait;; wait = std::min(2 * wait, longest_wait)) {
    const auto values = store_.wait_for_each(keys_of(number_), rank, std::ssize(peers_),
                                             Deadline::in(std::min(look.left(), wait)));
    if (node_.aborted()) throw CommError(node_.abort_reason());
    for (const std::string& value : values) texts.push_back(text_in(value, static_cast<int>(texts.size())));
    if (!values.empty()) return;
    if (!look.passed()) continue;
    const auto next = patience.look({rank});
    if (!next) fail_without(rank);
    look = Deadline::at(*next);
  }
}

std::string StoreGather::text_in(const std::string& value, int rank) const {
  const std::size_t space = value.find(' ');
  if (value.substr(0, space) == std::to_string(node_.call().signature())) return value.substr(space + 1);
  throw CommError(fmt::format("{} made another call than {}: all ranks must make the same calls",
                              name_of(rank, peers_[static_cast<std::size_t>(rank)]),
                              node_.call().describe()));
}

/// Names all missing ranks, not just the first.
void StoreGather::fail_without(int rank) {
  const std::vector<int> absent = absent_ranks(store_, rank, static_cast<int>(peers_.size()),
                                               [this](int other) { return key_of(other, number_); });
  throw CommError(fmt::format("{} did not reach {} within {:g} s", name_of_ranks(absent),
                              node_.call().describe(), node_.timeout().count()));
}

std::string StoreGather::key_of(int rank, std::uint64_t number) {
  return keys_of(number) + std::to_string(rank);
}

}  // namespace lockstep::comm
