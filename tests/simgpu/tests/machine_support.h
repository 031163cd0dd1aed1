#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/simgpu/machine/settings.h"
#include "tests/simgpu/operation.h"

namespace simgpu::test {

/// The machine starts anew with what the test chooses and the policy of the environment; mistakes throw.
class FreshMachine {
 public:
  explicit FreshMachine(const std::function<void(Settings&)>& choose = {});
  ~FreshMachine();
  FreshMachine(const FreshMachine&) = delete;
  FreshMachine& operator=(const FreshMachine&) = delete;
};

struct Mistake {
  std::string kind;
  std::string text;
};

/// The kind of the mistake that this makes; "none" when it makes none.
std::string mistake_in(const std::function<void()>& program);
Mistake whole_mistake_in(const std::function<void()>& program);

/// Runs this in a process of its own that starts the machine anew: "86 simgpu: KIND: …", its exit code and
/// its stderr.
std::string end_of_process(const std::function<void()>& program,
                           const std::function<void(Settings&)>& choose = {});

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking);
cudaEvent_t make_event();
/// `count` floats on the current device.
float* make_floats(std::size_t count);
/// `count` floats of pinned memory.
float* make_pinned(std::size_t count);

/// A "kernel" that adds `summand` to `count` floats, made by hand.
cudaError_t launch_add(cudaStream_t stream, float* values, std::size_t count, float summand,
                       const std::string& name = "add");
/// A "kernel" that copies floats.
cudaError_t launch_copy(cudaStream_t stream, float* to, const float* from, std::size_t count,
                        const std::string& name = "copy");

/// Sets all values, and waits.
void set_floats(float* device, const std::vector<float>& values);
/// Waits for the device and reads.
std::vector<float> read_floats(const float* device, std::size_t count);

/// Fails the test unless the call succeeds.
void ok(cudaError_t error);

}  // namespace simgpu::test
