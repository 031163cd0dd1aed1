// A disk that hangs, for a program that has this library in LD_PRELOAD: calls of the kind HUNG_CALL (open,
// read, write, fsync, rename, unlink, page) on files at or below HUNG_PATH never return, from the moment on
// that HUNG_SINCE exists (empty: from the start). "page" is the memory of a mapped file. With HUNG_MS the
// disk is slow instead: each call takes so long. With HUNG_KILL=N the process is killed in front of the Nth
// call, with HUNG_VICTIM=parent the one that started it, which is to take it along.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/fault/preloaded.h"

namespace {

using lockstep::tests::setting;

template <class Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool has_begun() {
  const std::string_view since = setting("HUNG_SINCE");
  return since.empty() || access(since.data(), F_OK) == 0;
}

bool is_hung_file(std::string_view call, std::string_view path) {
  return setting("HUNG_CALL") == call && path.starts_with(setting("HUNG_PATH"));
}

bool is_hung_file(std::string_view call, int fd) {
  std::array<char, 64> link{"/proc/self/fd/"};
  std::size_t end = std::string_view(link.data()).size();
  for (int digit = 1'000'000'000; digit > 0; digit /= 10) {
    if (fd >= digit || digit == 1) link[end++] = static_cast<char>('0' + fd / digit % 10);
  }
  std::array<char, 4096> path{};
  const ssize_t length = readlink(link.data(), path.data(), path.size());
  return length > 0 && is_hung_file(call, {path.data(), static_cast<std::size_t>(length)});
}

[[noreturn]] void hang() {
  while (true) pause();
}

std::atomic<int> calls{0};

void act() {
  const std::string_view last_call = setting("HUNG_KILL");
  if (!last_call.empty()) {
    if (++calls < std::atoi(last_call.data())) return;
    kill(setting("HUNG_VICTIM") == "parent" ? getppid() : getpid(), SIGKILL);
    hang();
  }
  const std::string_view milliseconds = setting("HUNG_MS");
  if (milliseconds.empty()) hang();
  usleep(static_cast<useconds_t>(1000 * std::atoi(milliseconds.data())));
}

template <class File>
void hang_if_hung(const char* call, File file) {
  if (is_hung_file(call, file) && has_begun()) act();
}

struct Pages {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
std::array<Pages, 64> mapped;
std::atomic<std::size_t> mapped_count{0};

void at_fault(int signal_number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (std::size_t i = 0; i < mapped_count; ++i) {
    if (address - mapped[i].begin < mapped[i].bytes) hang();
  }
  std::signal(signal_number, SIG_DFL);  // a fault of the program's own: it happens again
}

void* take_pages_away(void*) {
  while (!has_begun()) usleep(1000);
  for (std::size_t i = 0; i < mapped_count; ++i) {
    mprotect(reinterpret_cast<void*>(mapped[i].begin), mapped[i].bytes, PROT_NONE);
  }
  return nullptr;
}

void watch_for_the_beginning() {
  struct sigaction action {};
  action.sa_sigaction = at_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  pthread_create(&thread, nullptr, take_pages_away, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int open_with(const char* name, const char* path, int flags, mode_t mode) {
  hang_if_hung("open", std::string_view(path));
  return original<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

mode_t mode_in(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open_with("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return open_with("open64", path, flags, mode);
}

/// What programs built with _FORTIFY_SOURCE call in place of open and read where the compiler knows too
/// little.
int __open_2(const char* path, int flags) {  // NOLINT(readability-identifier-naming): the name is glibc's
  return open_with("open", path, flags, 0);
}

// NOLINTNEXTLINE(readability-identifier-naming): the name is glibc's
ssize_t __read_chk(int fd, void* to, size_t bytes, size_t) {
  hang_if_hung("read", fd);
  return original<ssize_t (*)(int, void*, size_t)>("read")(fd, to, bytes);
}

ssize_t read(int fd, void* to, size_t bytes) {
  hang_if_hung("read", fd);
  return original<ssize_t (*)(int, void*, size_t)>("read")(fd, to, bytes);
}

ssize_t write(int fd, const void* from, size_t bytes) {
  hang_if_hung("write", fd);
  return original<ssize_t (*)(int, const void*, size_t)>("write")(fd, from, bytes);
}

int fsync(int fd) {
  hang_if_hung("fsync", fd);
  return original<int (*)(int)>("fsync")(fd);
}

int rename(const char* from, const char* to) noexcept {
  hang_if_hung("rename", std::string_view(to));
  return original<int (*)(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) noexcept {
  hang_if_hung("unlink", std::string_view(path));
  return original<int (*)(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  hang_if_hung("unlink", folder);
  return original<int (*)(int, const char*, int)>("unlinkat")(folder, name, flags);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  void* const address = original<void* (*)(void*, size_t, int, int, int, off_t)>("mmap")(
      at, bytes, protection, flags, fd, offset);
  if (fd >= 0 && address != MAP_FAILED && is_hung_file("page", fd)) {
    if (mapped_count == 0) watch_for_the_beginning();
    mapped[mapped_count] = {reinterpret_cast<std::uintptr_t>(address), bytes};
    ++mapped_count;
  }
  return address;
}
}
