#include "comm/tcp/store_gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/tcp/mesh.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

// An abort by a rank of this node wakes no socket: check for it this often.
constexpr Seconds poll_interval{0.02};

}  // namespace

std::vector<std::string> StoreGather::operator()(std::string_view mine) {
  const int rank = node_.rank();
  ++number_;
  const Deadline deadline = Deadline::at(node_.deadline());
  store_.set(key_of(rank, number_), fmt::format("{} {}", node_.call().signature(), mine), deadline);
  std::vector<std::string> texts;
  for (int other = 0; other < static_cast<int>(peers_.size()); ++other) texts.push_back(wait_for(other));
  // A rank that set this number has read all texts of the last one. Ranks may have been waited for past the
  // deadline.
  if (number_ > 1) store_.erase(key_of(rank, number_ - 1), Deadline::in(node_.timeout()));
  return texts;
}

std::string StoreGather::wait_for(int rank) {
  Patience patience(node_.rank(), node_.timeout(), node_.call().start, status_of_);
  Deadline look = Deadline::at(Patience::first_look(node_.call().start, node_.timeout()));
  while (true) {
    const auto found =
        store_.wait_for(key_of(rank, number_), Deadline::in(std::min(look.left(), poll_interval)));
    if (node_.aborted()) throw CommError(node_.abort_reason());
    if (found) {
      const std::size_t space = found->find(' ');
      if (found->substr(0, space) == std::to_string(node_.call().signature()))
        return found->substr(space + 1);
      throw CommError(fmt::format("{} made another call than {}: all ranks must make the same calls",
                                  name_of(rank, peers_[static_cast<std::size_t>(rank)]),
                                  node_.call().describe()));
    }
    if (!look.passed()) continue;
    const auto next = patience.look({rank});
    if (!next) fail_without(rank);
    look = Deadline::at(*next);
  }
}

/// Names all missing ranks, not just the first.
void StoreGather::fail_without(int rank) {
  const std::vector<int> absent = absent_ranks(store_, rank, static_cast<int>(peers_.size()),
                                               [this](int other) { return key_of(other, number_); });
  throw CommError(fmt::format("{} did not reach {} within {:g} s", name_of_ranks(absent),
                              node_.call().describe(), node_.timeout().count()));
}

std::string StoreGather::key_of(int rank, std::uint64_t number) const {
  return fmt::format("gather/{}/{}", number, rank);
}

}  // namespace lockstep::comm
