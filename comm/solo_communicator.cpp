#include "comm/solo_communicator.h"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

class SoloCommunicator final : public Communicator {
 public:
  explicit SoloCommunicator(const World& world) : world_(world) {}

  const World& world() const override { return world_; }
  std::string_view backend() const override { return "solo"; }

  std::span<std::byte> allocate_arena(std::size_t bytes) override {
    arena_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
    std::memset(arena_.get(), 0, bytes);
    return {arena_.get(), bytes};
  }

  ExchangeTiming all_reduce(std::size_t, std::size_t, DType, ExchangeLabel, kernels::Stream&) override {
    throw_if_aborted();
    return {};
  }
  void all_reduce_sum(std::span<double>) override { throw_if_aborted(); }
  void broadcast(std::span<std::byte>, int) override { throw_if_aborted(); }
  std::vector<std::string> all_gather(std::string_view mine) override {
    throw_if_aborted();
    return {std::string(mine)};
  }
  void barrier() override { throw_if_aborted(); }
  void abort(std::string_view) noexcept override { aborted_ = true; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };

  void throw_if_aborted() const {
    if (aborted_) throw CommError("the run was aborted");
  }

  World world_;
  std::unique_ptr<std::byte, Free> arena_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator(const World& world) {
  return std::make_unique<SoloCommunicator>(world);
}

}  // namespace lockstep::comm
