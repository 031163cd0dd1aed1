#include "kernels/cuda/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/base/error.h"
#include "kernels/base/gpus.h"
#include "kernels/cuda/built_convolutions.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/fused_relu.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/stream.h"

namespace lockstep::kernels {
namespace {

using Counter = std::shared_ptr<std::atomic<std::size_t>>;

class CudaMemory final : public Memory {
 public:
  CudaMemory(std::size_t bytes, Counter held) : buffer_(bytes), held_(std::move(held)) {
    if (bytes > 0) {
      check(cudaMemset(buffer_.data(), 0, bytes), "cannot clear memory");
      // Our streams do not wait for the default one, on which this ran.
      check(cudaStreamSynchronize(nullptr), "cannot clear memory");
    }
    *held_ += bytes;
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override { *held_ -= buffer_.bytes(); }

  void* data() const override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  DeviceBuffer buffer_;
  Counter held_;
};

class PinnedMemory final : public Memory {
 public:
  explicit PinnedMemory(std::size_t bytes) : buffer_(bytes) {
    if (bytes > 0) std::memset(buffer_.data(), 0, bytes);
  }

  void* data() const override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  PinnedBuffer buffer_;
};

/// The owner's memory, registered with CUDA.
class RegisteredMemory final : public Memory {
 public:
  explicit RegisteredMemory(std::span<std::byte> bytes) : bytes_(bytes) {
    check(cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterDefault), "cannot pin host memory");
  }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory() override { cudaHostUnregister(bytes_.data()); }

  void* data() const override { return bytes_.data(); }
  std::size_t bytes() const override { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

/// Every method makes the GPU the calling thread's: a device may be used from several threads, and a process
/// may hold several devices.
class CudaDevice final : public Backend<Cuda> {
 public:
  explicit CudaDevice(int index) : index_(index) {
    make_current(index);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cannot read the GPU's properties");
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "cannot read CUDA's version");
    name_ = properties.name;
    capability_ = 10 * properties.major + properties.minor;
    if (const std::string problem = gpu_problem(capability_); !problem.empty()) {
      throw DeviceError(fmt::format("cuda: GPU {} ({}): {}; use --device cpu", index, name_, problem));
    }
    instruction_set_ = fmt::format("sm_{}{}, CUDA {}.{}, {}, {}", properties.major, properties.minor,
                                   runtime / 1000, runtime % 1000 / 10, gemm_library(), dnn_library());
    check(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_),
          "cannot read the streams' priorities");
    free_at_start_ = read_free_memory();
    fused_relu_ = shared_by_device<FusedRelu>();
    built_convolutions_ = shared_by_device<BuiltConvolutions>();
  }

  std::string name() const override { return name_; }
  std::string instruction_set() const override { return instruction_set_; }
  int threads() const override { return 1; }
  bool has_bf16() const override { return capability_ >= 80; }
  bool is_async() const override { return true; }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    make_current(index_);
    return std::make_unique<CudaMemory>(bytes, held_);
  }
  std::unique_ptr<Memory> allocate_host(std::size_t bytes) override {
    make_current(index_);
    return std::make_unique<PinnedMemory>(bytes);
  }
  std::size_t allocated_bytes() const override { return *held_; }
  std::size_t used_bytes() const override {
    make_current(index_);
    return free_at_start_ - std::min(free_at_start_, read_free_memory());
  }
  std::optional<std::size_t> free_bytes() const override {
    make_current(index_);
    return read_free_memory();
  }
  std::unique_ptr<Memory> pin(std::span<std::byte> bytes) override {
    if (bytes.empty()) return nullptr;
    make_current(index_);
    return std::make_unique<RegisteredMemory>(bytes);
  }
  std::string bus_id() const override { return bus_id_of(index_); }

  std::unique_ptr<Stream> make_stream(StreamPriority priority) override {
    make_current(index_);
    const int number = priority == StreamPriority::high ? greatest_priority_ : least_priority_;
    return std::make_unique<CudaStream>(index_, make_stream_handle(number));
  }
  std::unique_ptr<Event> make_event() override {
    make_current(index_);
    return std::make_unique<CudaEvent>(make_event_handle());
  }

  bool has_graphs() const override { return true; }
  std::unique_ptr<CapturedGraph> capture(Stream& stream, const std::function<void()>& launches) override {
    return std::make_unique<CudaGraph>(static_cast<CudaStream&>(stream), launches);
  }

  // CUDA itself takes pageable memory through pinned memory of its own, and waits where it has to.
  void copy_to_device(void* device, const void* host, std::size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, handle_of(stream)),
          "cannot copy to the GPU");
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, handle_of(stream)),
          "cannot copy from the GPU");
  }

  void keep_plans_in(std::shared_ptr<const PlanStore> store) override {
    built_convolutions_->keep_in(std::move(store), name_ + ", " + instruction_set_);
  }

  KernelPtr make_kernel(const KernelSpec& spec, const KernelIo& io) const override {
    make_current(index_);
    return Backend::make_kernel(spec, io);
  }
  void assign_layouts(const KernelSpec& spec, KernelIo& io) const override {
    make_current(index_);
    Backend::assign_layouts(spec, io);
  }
  std::vector<Algorithm> offered_algorithms(const KernelSpec& spec, const KernelIo& io) const override {
    make_current(index_);
    return Backend::offered_algorithms(spec, io);
  }

 private:
  static std::size_t read_free_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cannot read the free memory");
    return free;
  }

  Cuda tag() const override { return {.capability = capability_}; }

  int index_;
  std::size_t free_at_start_ = 0;
  std::string name_;
  std::string instruction_set_;
  int capability_ = 0;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  Counter held_ = std::make_shared<std::atomic<std::size_t>>(0);
  // Kernels that are prepared find these by `shared_by_device`.
  std::shared_ptr<FusedRelu> fused_relu_;
  std::shared_ptr<BuiltConvolutions> built_convolutions_;
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int index) {
  const int count = cuda_device_count();
  if (count == 0) {
    throw DeviceError("cuda: no GPU: " + to_text(list_cuda_versions()) +
                      "; look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu");
  }
  if (index < 0 || index >= count) {
    throw DeviceError(fmt::format(
        "cuda: there is no GPU {}: this process sees {}; look at CUDA_VISIBLE_DEVICES", index, count));
  }
  return std::make_unique<CudaDevice>(index);
}

}  // namespace lockstep::kernels
