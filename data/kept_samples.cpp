#include "data/kept_samples.h"

#include <cstring>
#include <utility>

namespace lockstep::data {
namespace {

class KeptSamples final : public Dataset {
 public:
  KeptSamples(DatasetPtr samples, std::int64_t first)
      : samples_(std::move(samples)), spec_(samples_->spec()), first_(first) {
    spec_.rows = kernels::GatherRows{.input_dtype = spec_.input_dtype,
                                     .input = spec_.input_shape,
                                     .target_dtype = spec_.target_dtype,
                                     .target = spec_.target_shape};
    spec_.input_dtype = DType::i64;
    spec_.input_shape = {2};
    spec_.target_shape = {0};
  }

  std::int64_t size() const override { return samples_->size(); }
  const SampleSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> /*target*/) const override {
    const kernels::KeptSample sample{.first = first_ + index, .targets = valid_targets(index, epoch)};
    std::memcpy(input.data(), &sample, sizeof sample);
  }
  void get_states(std::int64_t index, std::span<std::byte> states) const override {
    samples_->get_states(index, states);
  }
  std::int64_t valid_targets(std::int64_t index, std::int64_t epoch) const override {
    return samples_->valid_targets(index, epoch);
  }

  std::int64_t kept() const override { return size(); }

  void read_kept(std::int64_t first, std::span<std::byte> items) const override {
    const SampleSpec& whole = samples_->spec();
    const auto offset = static_cast<std::size_t>(spec_.rows->target_offset());
    const std::size_t bytes = spec_.kept_bytes();
    for (std::int64_t index = first; !items.empty(); ++index, items = items.subspan(bytes))
      samples_->get(index, 0, items.first(whole.input_bytes()), items.subspan(offset, whole.target_bytes()));
  }

 private:
  const DatasetPtr samples_;
  SampleSpec spec_;
  const std::int64_t first_;  ///< of the device's samples, the number of the set's first
};

}  // namespace

DatasetPtr make_kept_samples(DatasetPtr samples, std::int64_t first) {
  return std::make_shared<KeptSamples>(std::move(samples), first);
}

}  // namespace lockstep::data
