#include "kernels/backend.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernels/base/deadline.h"
#include "kernels/base/error.h"
#include "kernels/base/threads.h"
#include "kernels/cpu/onednn.h"

namespace lockstep::kernels {
namespace {

using Counter = std::shared_ptr<std::atomic<std::size_t>>;

/// Whole pages straight from the kernel: aligned, zeroed when touched, returned at once. Huge ones where it
/// has them: a step reads so many that small ones miss the TLB.
class MappedMemory : public Memory {
 public:
  MappedMemory(std::size_t bytes, Counter held) : bytes_(bytes), held_(std::move(held)) {
    if (bytes_ == 0) return;
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      throw DeviceError(
          fmt::format("cpu: cannot map {} bytes: {}; use a smaller batch", bytes_, errno_message(errno)));
    }
    if (bytes_ >= least_huge) ::madvise(data_, bytes_, MADV_HUGEPAGE);
    *held_ += bytes_;
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() override {
    if (data_ == nullptr) return;
    ::munmap(data_, bytes_);
    *held_ -= bytes_;
  }

  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  /// Where the rest of a huge page that is not used is little.
  static constexpr std::size_t least_huge = std::size_t{8} << 20;

  std::size_t bytes_;
  Counter held_;
  void* data_ = nullptr;
};

/// A launch returns when it is done, so there is never anything to wait for.
class CpuEvent : public Event {
 public:
  bool reached() override { return true; }
  void synchronize() override {}
};

class CpuStream : public Stream {
 public:
  void synchronize() override {}
  void record(Event&) override {}
  void wait(Event&) override {}
};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

/// As /proc counts them, those that are about to go included; always the same where there is none.
std::uintmax_t threads_of_process() {
  std::error_code ignored;
  return std::filesystem::hard_link_count("/proc/self/task", ignored);
}

void start_and_join_threads(int count) {
  std::latch all_asked(1);
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(count - 1));
  try {
    for (int thread = 1; thread < count; ++thread) others.emplace_back([&] { all_asked.wait(); });
    all_asked.count_down();
  } catch (const std::system_error& refusal) {
    all_asked.count_down();
    throw DeviceError(
        fmt::format("cpu: {} compute threads, of which the system gives {}: {}, or give fewer --threads",
                    count, others.size() + 1, obstacle_to_start_thread(refusal.code().value())));
  } catch (...) {
    all_asked.count_down();
    throw;
  }
}

/// libgomp ends the process when the system refuses it a thread: as many are asked for before it is.
void require_threads(int count) {
  const std::uintmax_t before = threads_of_process();
  start_and_join_threads(count);
  // A thread counts for ulimit -u and pids.max for a moment after join has returned.
  const Deadline deadline = Deadline::in(Seconds(0.1));
  while (threads_of_process() > before && !deadline.passed()) std::this_thread::yield();
}

/// Makes this thread treat denormal numbers as zero: one costs an Intel core a hundred cycles and more.
void flush_denormals() {
#if defined(__x86_64__)
  constexpr unsigned flush_to_zero = 0x8000;
  constexpr unsigned denormals_are_zero = 0x0040;
  _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" ::"r"(control | (1ULL << 24)));
#endif
}

template <class Op, class... Ops>
constexpr bool is_any = (std::is_same_v<Op, Ops> || ...);

/// What only moves numbers, and what a plugin computes.
template <class Op>
constexpr bool takes_f16 =
    is_any<Op, Concat, ExternalOp, Fill, GatherRows, LastStep, LastStepBackward, Reorder, Split>;

/// UsageError for what computes in f16: the library's refusal is a DeviceError, and some of our loops would
/// take its numbers for bf16.
void refuse_f16(const KernelSpec& any, const KernelIo& io) {
  const auto is_f16 = [](const TensorDesc& tensor) { return tensor.dtype == DType::f16; };
  if (std::ranges::none_of(io.inputs, is_f16) && std::ranges::none_of(io.outputs, is_f16)) return;
  const auto refuse = []<class Op>(const Op& op) {
    if constexpr (!takes_f16<Op>) throw UsageError(op_name(op) + ": f16 is computed on GPUs; use bf16");
  };
  std::visit(refuse, any);
}

class CpuDevice : public Backend<Cpu> {
 public:
  explicit CpuDevice(int threads) : threads_(threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
#pragma omp parallel
    flush_denormals();
  }

  bool is_cpu() const override {
    return true;
  }
  std::string name() const override {
    return name_;
  }
  std::string instruction_set() const override {
    return onednn::instruction_set();
  }
  /// oneDNN's words: with AVX-512 alone it takes bf16 apart into f32, which still is faster than a pass over
  /// it.
  bool has_bf16() const override {
    const std::string widest = onednn::instruction_set();
    return widest.starts_with("avx512") || widest == "avx2_vnni_2";
  }
  int threads() const override {
    return threads_;
  }

  std::unique_ptr<Memory> allocate(std::size_t bytes) override {
    return std::make_unique<MappedMemory>(bytes, held_);
  }
  std::unique_ptr<Memory> allocate_host(std::size_t bytes) override {
    return std::make_unique<MappedMemory>(bytes, std::make_shared<std::atomic<std::size_t>>(0));
  }
  std::size_t allocated_bytes() const override {
    return *held_;
  }
  std::unique_ptr<Stream> make_stream(StreamPriority) override {
    return std::make_unique<CpuStream>();
  }
  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CpuEvent>();
  }

  KernelPtr make_kernel(const KernelSpec& any, const KernelIo& io) const override {
    refuse_f16(any, io);
    return Backend::make_kernel(any, io);
  }
  void assign_layouts(const KernelSpec& any, KernelIo& io) const override {
    refuse_f16(any, io);
    Backend::assign_layouts(any, io);
  }

  void copy_to_device(void* device, const void* host, std::size_t bytes, Stream&) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes, Stream&) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }

 private:
  Cpu tag() const override {
    return {onednn_};
  }

  int threads_;
  onednn::Context onednn_;
  std::string name_ = processor_name();
  Counter held_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  if (threads < 1) throw UsageError(fmt::format("cpu: {} threads; give at least 1", threads));
  require_threads(threads);
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace lockstep::kernels
