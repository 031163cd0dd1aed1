#include "runtime/plugin/named_errors.h"

#include <memory>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/rethrow.h"

namespace lockstep::runtime {
namespace {

class NamedSamples final : public data::Dataset {
 public:
  NamedSamples(data::DatasetPtr samples, std::string whose)
      : samples_(std::move(samples)), whose_(std::move(whose)) {}

  std::int64_t size() const override {
    return naming("size", [&] { return samples_->size(); });
  }
  const data::SampleSpec& spec() const override {
    return naming("spec", [&]() -> const data::SampleSpec& { return samples_->spec(); });
  }
  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    naming("sample", index, [&] { samples_->get(index, epoch, input, target); });
  }
  void get_states(std::int64_t index, std::span<std::byte> states) const override {
    naming("states of sample", index, [&] { samples_->get_states(index, states); });
  }
  std::int64_t valid_targets(std::int64_t index, std::int64_t epoch) const override {
    return naming("sample", index, [&] { return samples_->valid_targets(index, epoch); });
  }
  std::int64_t length(std::int64_t index) const override {
    return naming("length of sample", index, [&] { return samples_->length(index); });
  }
  data::DatasetPtr as_bytes() const override {
    return naming("as_bytes", [&] { return with_named_errors(samples_->as_bytes(), whose_); });
  }
  data::DatasetPtr as_kept(std::int64_t first) const override {
    return naming("as_kept", [&] { return with_named_errors(samples_->as_kept(first), whose_); });
  }
  std::int64_t kept() const override {
    return naming("kept", [&] { return samples_->kept(); });
  }
  void read_kept(std::int64_t first, std::span<std::byte> items) const override {
    naming("items from", first, [&] { samples_->read_kept(first, items); });
  }
  std::string note() const override {
    return naming("note", [&] { return samples_->note(); });
  }
  std::int64_t place_of(std::int64_t index) const override {
    return naming("place_of", [&] { return samples_->place_of(index); });
  }
  std::string warning() const override {
    return naming("warning", [&] { return samples_->warning(); });
  }
  void each_content(const TakeBytes& take) const override {
    naming("each_content", [&] { samples_->each_content(take); });
  }
  void read_file(std::int64_t index, const TakeBytes& take) const override {
    naming("file of sample", index, [&] { samples_->read_file(index, take); });
  }

 private:
  template <class Code>
  std::invoke_result_t<Code> naming(const char* what, std::int64_t number, Code&& code) const {
    try {
      return code();
    } catch (...) {
      rethrow_as<DataError>(fmt::format("{}, {} {}", whose_, what, number));
    }
  }
  template <class Code>
  std::invoke_result_t<Code> naming(const char* function, Code&& code) const {
    try {
      return code();
    } catch (...) {
      rethrow_as<DataError>(fmt::format("{}, {}", whose_, function));
    }
  }

  const data::DatasetPtr samples_;
  const std::string whose_;
};

}  // namespace

Forward with_named_errors(Forward forward, const std::string& whose) {
  if (!forward) return forward;
  return [forward = std::move(forward), whose](model::Tensor batch) {
    try {
      return forward(batch);
    } catch (...) {
      rethrow_as<UsageError>(whose);
    }
  };
}

data::DatasetPtr with_named_errors(data::DatasetPtr samples, const std::string& whose) {
  if (samples == nullptr) return samples;
  return std::make_shared<NamedSamples>(std::move(samples), whose);
}

}  // namespace lockstep::runtime
