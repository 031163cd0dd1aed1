#include <fmt/format.h>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/cuda/built_convolutions.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/module.h"

namespace lockstep::kernels {
namespace {

class DescribedDevice final : public Backend<Cuda> {
 public:
  explicit DescribedDevice(const std::string& json) : gpu_(describe_gpu(json)) {
    const Json properties = Json::parse(json);
    name_ = properties.at("deviceName").get<std::string>();
    capability_ = properties.at("deviceVer").get<int>() / 10;
  }

  std::string name() const override { return name_; }
  std::string instruction_set() const override {
    return fmt::format("sm_{} by its description, {}", capability_, dnn_library());
  }
  int threads() const override { return 1; }
  bool has_bf16() const override { return capability_ >= 80; }
  bool is_async() const override { return true; }

  std::unique_ptr<Memory> allocate(std::size_t) override { refuse("allocated on"); }
  std::unique_ptr<Memory> allocate_host(std::size_t) override { refuse("allocated for"); }
  std::size_t allocated_bytes() const override { return 0; }
  std::unique_ptr<Stream> make_stream(StreamPriority) override { refuse("launched on"); }
  std::unique_ptr<Event> make_event() override { refuse("launched on"); }
  /// For who wants to see what would be kept: nothing is compiled without a GPU, and all else is kept.
  void keep_plans_in(std::shared_ptr<const PlanStore> store) override {
    gpu_->convolutions().keep_in(std::move(store), name_ + ", " + instruction_set());
  }
  void copy_to_device(void*, const void*, std::size_t, Stream&) override { refuse("copied to"); }
  void copy_to_host(void*, const void*, std::size_t, Stream&) override { refuse("copied from"); }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw DeviceError(fmt::format("cuda: {} is only described: nothing can be {} it", name_, what));
  }

  /// cuDNN is asked about it; cuBLASLt, which knows the current GPU alone, is not.
  Cuda tag() const override { return {.capability = capability_, .described = gpu_.get()}; }

  std::shared_ptr<const DescribedGpu> gpu_;
  std::string name_;
  int capability_ = 0;
};

}  // namespace

std::unique_ptr<Device> describe_cuda_device(const std::string& json) {
  try {
    return std::make_unique<DescribedDevice>(json);
  } catch (const JsonError& error) {
    throw UsageError(fmt::format("cuda: the description of a GPU: {}", error.what()));
  }
}

}  // namespace lockstep::kernels
