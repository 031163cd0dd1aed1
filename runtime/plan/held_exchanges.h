#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/plan/schedule.h"

namespace lockstep::runtime {

/// The exchanges of a step that may be held back. In backward the exchange queue gets, whenever it would be
/// without work, the one that was ready last, if half of it fits before the end: the step waits for what is
/// ready then. The others come behind that, the last first, as forward reads their parameters. When the queue
/// would be without work is foretold, since the order has to be the same on all ranks: by how backward's work
/// lies between them, their bytes, and the share of backward that a mean exchange takes. Each rank measures
/// that share, and all go by the mean. A run follows this, and so does the simulation of one. `Call`: what is
/// posted.
template <class Call>
class HeldExchanges {
 public:
  explicit HeldExchanges(std::span<const Step> steps) {
    for (const Step& step : steps) {
      if (!step.held) continue;
      ready_.push_back(step.held->backward_done);
      relative_bytes_.push_back(step.held->relative_bytes);
    }
    for (const double first = ready_.empty() ? 0 : ready_.front(); double& ready : ready_)
      ready = first < 1 ? (ready - first) / (1 - first) : 0;
    held_.reserve(ready_.size());  // a step allocates nothing
  }

  /// In the order in which they are ready.
  template <class Post>
  void offer(const Call& call, const Post& post) {
    held_.push_back({call, relative_bytes_[offered_]});
    free_at_ = std::max(free_at_, ready_[offered_]);
    const double until = ++offered_ < ready_.size() ? ready_[offered_] : 2;
    while (!held_.empty() && free_at_ < until) {
      const double duration = share_ * held_.back().relative_bytes;
      if (free_at_ + duration / 2 > 1) return;
      free_at_ += duration;
      post_last(post);
    }
  }

  /// The end of backward.
  template <class Post>
  void release(const Post& post) {
    while (!held_.empty()) post_last(post);
    offered_ = 0;
    free_at_ = 0;
  }

  std::size_t size() const { return held_.size(); }

  /// The mean of all ranks' shares: of the time from the first offer to the end of backward. What is no
  /// number is 1.
  void follow(double share) {
    const double weight = std::max(least_weight, 1 / ++followed_);
    share_ += weight * (std::min(1.0, share) - share_);
  }

 private:
  /// Of a step, in the mean of the last: the noise of single ones hardly moves it. The first are a mean of
  /// equal weights, or it would take some tens of steps to settle.
  static constexpr double least_weight = 0.125;

  struct Held {
    Call call;
    double relative_bytes;
  };

  template <class Post>
  void post_last(const Post& post) {
    const Call call = held_.back().call;
    held_.pop_back();
    post(call);
  }

  /// In the order of offers: what share of backward's work is done of that behind the first.
  std::vector<double> ready_;
  std::vector<double> relative_bytes_;  ///< likewise
  std::vector<Held> held_;
  std::size_t offered_ = 0;
  double free_at_ = 0;  ///< the queue, in such shares
  double share_ = 0;    ///< that a mean exchange takes
  double followed_ = 0;
};

}  // namespace lockstep::runtime
