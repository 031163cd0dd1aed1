#include "kernels/base/cut_file_guard.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

/// A signal handler can look at nothing but statics, and take no lock.
struct Mapping {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};  ///< 0: not in use
  std::array<char, 1024> message{};    ///< with a line's end
};
/// Added when all before are taken, and never freed: a handler may be looking through them.
struct MappingBlock {
  std::array<Mapping, 64> mappings;
  std::atomic<MappingBlock*> next{nullptr};
};
MappingBlock first_block;

std::atomic<int> reports_wanted{0};
std::atomic<const Mapping*> cut{nullptr};

constexpr std::string_view line_begin = "error: ";
constexpr int milliseconds_to_report = 5000;

std::string_view line_of(const Mapping& mapping) {
  const char* const end = std::find(mapping.message.begin(), mapping.message.end(), '\0');
  return {mapping.message.data(), static_cast<std::size_t>(end - mapping.message.data())};
}

/// In a signal handler. Another thread ends the process meanwhile, unless it needs what this one holds.
void wait_for_report(const Mapping& mapping) {
  const Mapping* none = nullptr;
  cut.compare_exchange_strong(none, &mapping);
  if (reports_wanted > 0) ::poll(nullptr, 0, milliseconds_to_report);
}

void end_for_cut_file(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const MappingBlock* block = &first_block; block != nullptr; block = block->next) {
    for (const Mapping& mapping : block->mappings) {
      if (address < mapping.begin || address >= mapping.end) continue;
      wait_for_report(mapping);
      const std::string_view line = line_of(mapping);
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
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
    sigfillset(&action.sa_mask);  // another signal would cut the wait for a report short
    return ::sigaction(SIGBUS, &action, nullptr);
  }();
  static_cast<void>(installed);
}

}  // namespace

CutFileGuard::CutFileGuard(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  handle_signal_once();
  Mapping* const mapping = take_mapping();
  const std::string advice =
      ": was cut while it was in use; restore it, and go on (training: --resume auto)\n";
  const std::size_t room = mapping->message.size() - 1 - line_begin.size() - advice.size();
  const std::string line = std::string(line_begin) + on_one_line(file.string()).substr(0, room) + advice;
  mapping->message[line.size()] = '\0';
  std::copy_n(line.data(), line.size(), mapping->message.data());
  mapping->begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  mapping->end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  entry_ = std::shared_ptr<const void>(mapping, [mapping](const void*) {
    mapping->end = 0;
    mapping->is_taken = false;
  });
}

CutFileReports::CutFileReports() {
  ++reports_wanted;
}

CutFileReports::~CutFileReports() {
  --reports_wanted;
}

std::optional<std::string> cut_file_report() {
  const Mapping* const mapping = cut;
  if (mapping == nullptr) return std::nullopt;
  std::string_view line = line_of(*mapping);
  line.remove_prefix(line_begin.size());
  line.remove_suffix(1);
  return std::string(line);
}

}  // namespace lockstep
