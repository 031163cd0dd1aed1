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

const void* instruction([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] +
                                       1);
#else
  return nullptr;
#endif
}

void device_memory_touched(std::uintptr_t address, const std::string& where) {
  const std::string what = "device address " + hex(address);
  if (const Node* node = running().node) {
    end_after_mistake("memory of another device",
                      node->info->describe() + " touches " + what + ", which is not its device's");
  }
  end_after_mistake("host dereferences device memory",
                    "the host touches " + what + " at " + where +
                        "; copy it with cudaMemcpy, or hand the pointer to a kernel");
}

/// Returns when the access is legal and is to be tried again.
void pinned_memory_touched(std::uintptr_t address, const std::string& where) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  const Block* block = m.memory.find(address);
  if (!block || address >= block->end()) {
    end_after_mistake(
        m.memory.was_freed(address) ? "use after free" : "out of bounds",
        "the host touches pinned memory at " + where + ": " + m.memory.explain_missing(address));
  }
  const auto* guard = m.scheduler.guards().guard_at(address);
  if (!guard || running().node) {  // a kernel or callback touches it: the order checker has judged that
    m.memory.pinned().protect(address, address + 1, PROT_READ | PROT_WRITE);
    return;
  }
  end_after_mistake(
      guard->writes ? "host reads pinned buffer before sync" : "host writes pinned buffer in use",
      "the host touches " + hex(address) + " at " + where + " before it waited for " +
          guard->info->describe() + "; synchronise with that stream or with an event after the copy");
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const Machine& m = machine();
  const auto where = [&] { return Origin{{}, instruction(context)}.text(); };
  if (m.memory.is_device(address)) device_memory_touched(address, where());
  if (m.memory.is_pinned_arena(address)) return pinned_memory_touched(address, where());
  if (const Node* node = running().node) {
    print_mistake("illegal address", node->info->describe() + " touches " + hex(address));
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGSEGV, &before, nullptr);  // the access happens again and ends the process
  }
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
