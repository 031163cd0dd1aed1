#include "kernels/base/cut_file_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

/// A signal handler can look at nothing but statics, and take no lock.
struct Mapping {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};  ///< 0: not in use
  std::array<char, 1024> message{};
};
/// Added when all before are taken, and never freed: a handler may be looking through them.
struct MappingBlock {
  std::array<Mapping, 64> mappings;
  std::atomic<MappingBlock*> next{nullptr};
};
MappingBlock first_block;

void end_for_cut_file(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const MappingBlock* block = &first_block; block != nullptr; block = block->next) {
    for (const Mapping& mapping : block->mappings) {
      if (address < mapping.begin || address >= mapping.end) continue;
      const char* const end = std::find(mapping.message.begin(), mapping.message.end(), '\0');
      [[maybe_unused]] const ssize_t written = ::write(
          STDERR_FILENO, mapping.message.data(), static_cast<std::size_t>(end - mapping.message.data()));
      ::_exit(static_cast<int>(ExitCode::data));
    }
  }
  std::signal(number, SIG_DFL);  // the read is tried again, and ends the process as it would have
}

/// Marked as taken.
Mapping* take_mapping() {
  for (MappingBlock* block = &first_block;;) {
    const auto free = std::ranges::find_if(block->mappings,
                                           [](Mapping& mapping) { return !mapping.is_taken.exchange(true); });
    if (free != block->mappings.end()) return &*free;
    MappingBlock* next = block->next;
    if (next == nullptr) {
      auto made = std::make_unique<MappingBlock>();
      if (block->next.compare_exchange_strong(next, made.get())) next = made.release();
    }
    block = next;
  }
}

void handle_signal_once() {
  static const int installed = [] {
    struct sigaction action {};
    action.sa_sigaction = end_for_cut_file;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &action, nullptr);
  }();
  static_cast<void>(installed);
}

}  // namespace

CutFileGuard::CutFileGuard(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  handle_signal_once();
  Mapping* const mapping = take_mapping();
  const std::string message = "error: " + file.string() + ": was cut while it was in use\n";
  const std::size_t length = std::min(message.size(), mapping->message.size() - 1);
  mapping->message[length] = '\0';
  std::copy_n(message.data(), length, mapping->message.data());
  mapping->begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  mapping->end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  entry_ = std::shared_ptr<const void>(mapping, [mapping](const void*) {
    mapping->end = 0;
    mapping->is_taken = false;
  });
}

}  // namespace lockstep
