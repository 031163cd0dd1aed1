#include "tests/simgpu/machine/machine.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "tests/simgpu/machine/running.h"

namespace simgpu {
namespace {

/// A program that failed has told a better reason already.
void report_leaks_at_end(int status, void*) {
  if (status == 0) machine().report_leaks();
}

void write_calls_at_end(int, void*) {
  machine().write_calls();
}

std::unique_ptr<Machine> start_first_machine() {
  const Settings settings = settings_from_environment();
  if (settings.report_leaks) on_exit(report_leaks_at_end, nullptr);
  if (!settings.calls.empty()) on_exit(write_calls_at_end, nullptr);
  return std::make_unique<Machine>(settings);
}

bool computes(const Operation& operation) {
  return operation.kind == Operation::Kind::kernel || operation.kind == Operation::Kind::library;
}

using MachinePtr = std::unique_ptr<Machine>;

/// Never destroyed: destructors of the program's own statics, and its last threads, still make CUDA calls.
MachinePtr& the_machine() {
  static MachinePtr& instance = *std::make_unique<MachinePtr>(start_first_machine()).release();
  return instance;
}

}  // namespace

Machine::Machine(const Settings& chosen)
    : settings(chosen),
      faults(chosen.fail_call, chosen.fail_function, chosen.fail_run),
      memory(chosen),
      scheduler(chosen, mutex, memory),
      streams(chosen, scheduler),
      events(2),
      graphs(3),
      graph_execs(4) {}

Machine& machine() {
  return *the_machine();
}

void restart_machine(const Settings& settings) {
  the_machine() = nullptr;  // the new one takes the same addresses
  the_machine() = std::make_unique<Machine>(settings);
  running() = {};
}

Running& running() {
  thread_local Running state;
  return state;
}

void Machine::write_calls() const {
  std::ofstream file(settings.calls);
  for (const auto& [function, calls] : faults.all_calls()) file << function << ' ' << calls << '\n';
}

void Machine::let_fail(Operation& operation) {
  const bool may_fail = computes(operation) || operation.kind == Operation::Kind::collective;
  if (settings.fail_run == 0 || !may_fail) return;
  if ((operation.name + " " + operation.site).find(settings.fail_kernel) == std::string::npos) return;
  // A collective is asked again until its peers are there: that is one run.
  operation.run = [this, run = std::move(operation.run), goes_well = false]() mutable {
    goes_well = goes_well || !faults.is_failing_run();
    if (goes_well) return run();
    set_sticky_error(cudaErrorIllegalAddress);
    return true;
  };
}

void Machine::enqueue(Lock& lock, const StreamPtr& stream, Operation operation, Origin origin) {
  require(!computes(operation) || stream->device == running().device, cudaErrorInvalidResourceHandle);
  let_fail(operation);
  const bool blocks = settings.launch_blocking && computes(operation);
  if (stream->capture) {
    captures.add(*stream, std::move(operation), std::move(origin));
  } else {
    captures.refuse_implicit(*stream);
    const NodePtr node = streams.submit(lock, *stream, std::move(operation), std::move(origin));
    if (blocks) scheduler.wait_for(lock, node);
  }
}

}  // namespace simgpu
