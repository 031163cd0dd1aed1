// A data set of one's own: points on a line, y = 2x + 1.
#include <cstring>

#include "data/dataset.h"

namespace {

class Line : public lockstep::data::Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  const lockstep::data::SampleSpec& spec() const override { return spec_; }
  void get(std::int64_t index, std::int64_t, std::span<std::byte> input,
           std::span<std::byte> target) const override {
    const float x = static_cast<float>(index) / 1000.0F;
    const float y = 2.0F * x + 1.0F;
    std::memcpy(input.data(), &x, sizeof x);
    std::memcpy(target.data(), &y, sizeof y);
  }

 private:
  lockstep::data::SampleSpec spec_{
      .input_shape = {1}, .target_dtype = lockstep::DType::f32, .target_shape = {1}};
};

}  // namespace

int main() {
  const Line line;
  return line.size() == 1000 ? 0 : 1;
}
