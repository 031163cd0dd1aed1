#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace lockstep::comm {

/// A group that exchanges gradients in its own way, and leaves rendezvous, agreement and faults to the
/// host-side group that it wraps.
class DecoratedCommunicator : public Communicator {
 public:
  const World& world() const override { return inner_->world(); }
  std::string_view backend() const override { return inner_->backend(); }
  bool crosses_nodes() const override { return inner_->crosses_nodes(); }
  void all_reduce_sum(std::span<double> values) override { inner_->all_reduce_sum(values); }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_->broadcast(bytes, root); }
  using Communicator::all_gather;
  std::vector<std::string> all_gather(std::string_view mine) override { return inner_->all_gather(mine); }
  void barrier() override { inner_->barrier(); }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  bool failed() const noexcept override { return inner_->failed(); }
  void watch(WatchHooks hooks) override { inner_->watch(std::move(hooks)); }
  std::optional<FailureReport> failure_report() override { return inner_->failure_report(); }

 protected:
  explicit DecoratedCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  Communicator& inner() { return *inner_; }
  const Communicator& inner() const { return *inner_; }

 private:
  std::unique_ptr<Communicator> inner_;
};

}  // namespace lockstep::comm
