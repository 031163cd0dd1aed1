#include "tests/simgpu/machine/host_faults.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/machine/mistake.h"
#include "tests/simgpu/machine/running.h"

namespace simgpu {
namespace {

struct sigaction before;

using Report = void (*)(std::uintptr_t address, const void* instruction);

/// Where an access went wrong, as Origin wants it: after the instruction.
const void* instruction_of([[maybe_unused]] const ucontext_t& context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(context.uc_mcontext.gregs[REG_RIP] + 1);
#else
  return nullptr;
#endif
}

/// Lets the thread go on in `report` instead of the access: a report allocates, which a signal handler must
/// not.
void go_on_in(Report report, std::uintptr_t address, [[maybe_unused]] ucontext_t& context) {
  const void* instruction = instruction_of(context);
#if defined(__x86_64__)
  constexpr greg_t red_zone = 128;
  constexpr greg_t alignment = 16;
  auto& registers = context.uc_mcontext.gregs;
  registers[REG_RDI] = static_cast<greg_t>(address);
  registers[REG_RSI] = reinterpret_cast<greg_t>(instruction);
  registers[REG_RSP] = (registers[REG_RSP] - red_zone) / alignment * alignment - 8;  // as after a call
  registers[REG_RIP] = reinterpret_cast<greg_t>(report);
#else
  report(address, instruction);
#endif
}

void report_device_access(std::uintptr_t address, const void* instruction) {
  const std::string what = "device address " + hex(address);
  if (const Node* node = running().node) {
    end_after_mistake("memory of another device",
                      node->info->describe() + " touches " + what + ", which is not its device's");
  }
  end_after_mistake("host dereferences device memory",
                    "the host touches " + what + " at " + Origin{{}, instruction}.text() +
                        "; copy it with cudaMemcpy, or hand the pointer to a kernel");
}

void report_unallocated_access(std::uintptr_t address, const void* instruction) {
  const Memory& memory = machine().memory;
  end_after_mistake(memory.was_freed(address) ? "use after free" : "out of bounds",
                    "the host touches pinned memory at " + Origin{{}, instruction}.text() + ": " +
                        memory.explain_missing(address));
}

void report_early_access(std::uintptr_t address, const void* instruction) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const auto* guard = m.scheduler.guards().guard_at(address);
  const bool reads = guard && !guard->writes;  // null: another thread waited for the copy just now
  end_after_mistake(reads ? "host writes pinned buffer in use" : "host reads pinned buffer before sync",
                    "the host touches " + hex(address) + " at " + Origin{{}, instruction}.text() +
                        " before it waited for " + (guard ? guard->info->describe() : "a copy") +
                        "; synchronise with that stream or with an event after the copy");
}

/// Null: the access is legal and is to be tried again.
Report judge_pinned_access(std::uintptr_t address) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const Block* block = m.memory.find(address);
  if (!block || address >= block->end()) return report_unallocated_access;
  // What a kernel or callback touches, the order checker has judged.
  if (m.scheduler.guards().guard_at(address) && !running().node) return report_early_access;
  m.memory.pinned().protect(address, address + 1, PROT_READ | PROT_WRITE);
  return nullptr;
}

void hand_on(int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGSEGV, &before, nullptr);  // the access happens again and ends the process
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const Memory& memory = machine().memory;
  Report report = nullptr;
  if (memory.is_device(address)) {
    report = report_device_access;
  } else if (memory.is_pinned_arena(address)) {
    report = judge_pinned_access(address);
  } else {
    if (const Node* node = running().node) {
      print_mistake("illegal address", node->info->describe() + " touches " + hex(address));
    }
    return hand_on(signal, info, context);
  }
  if (report) go_on_in(report, address, *static_cast<ucontext_t*>(context));
}

}  // namespace

void catch_host_faults() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
  before = now;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace simgpu
