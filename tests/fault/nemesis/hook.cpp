// In LD_PRELOAD of a run: counts the calls of one process, and in front of the one that nemesis chose kills
// processes, or lets the call fail.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <string>
#include <string_view>

#include "tests/fault/nemesis/hook.h"
#include "tests/fault/nemesis/strike.h"
#include "tests/fault/preloaded.h"

namespace lockstep::nemesis {
namespace {

using tests::number;
using tests::setting;

/// Whether this is the process whose calls count; what launch forks is another.
bool is_counted_process() {
  const std::string_view program = program_invocation_short_name;
  const std::string_view process = setting(process_variable);
  if (program == "trainer") return process == "rank " + std::string(setting("RANK"));
  return program == "launch" && process == "launch " + std::string(setting(host_variable));
}

/// All constant but the counters: what the process was started with.
struct Target {
  pid_t pid = is_counted_process() ? getpid() : 0;
  std::string call{setting(call_variable)};
  std::string path{setting(path_variable)};
  long pass = number(pass_variable);
  long count = number(count_variable);
  std::atomic<long> passes{0};
  std::atomic<long> calls{0};
};

Target& target() {
  static Target target;
  return target;
}

/// Counts one call; the error that it is to give, 0 for none.
int count_call() {
  if (++target().calls != target().count || getpid() != target().pid) return 0;
  return strike(setting(act_variable), setting(struck_variable), target().passes);
}

bool is_counted(std::string_view call) {
  return target().pid != 0 && target().call == call && target().passes >= target().pass;
}

int error_at(std::string_view call, const char* path) {
  if (!is_counted(call) || std::string_view(path).find(target().path) == std::string_view::npos) return 0;
  return count_call();
}

/// Empty for what is no file, and for the working folder.
std::string path_of(int fd) {
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), path, sizeof path - 1) > 0 ? path : "";
}

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Of `call` on a file, or of `on_socket` on a socket.
int error_at(std::string_view call, std::string_view on_socket, int fd) {
  const bool counts_files = is_counted(call);
  if (!counts_files && !is_counted(on_socket)) return 0;
  if (is_socket(fd) == counts_files) return 0;
  if (!counts_files || target().path.empty()) return count_call();
  const std::string path = path_of(fd);
  return path.empty() ? 0 : error_at(call, path.c_str());
}

/// Of a call on a name in a folder.
int error_at(std::string_view call, int folder, const char* name) {
  return is_counted(call) ? error_at(call, (path_of(folder) + '/' + name).c_str()) : 0;
}

int error_at(std::string_view call) {
  return is_counted(call) ? count_call() : 0;
}

int fails(int error) {
  if (error != 0) errno = error;
  return error;
}

[[gnu::noinline]] bool refuses_process() {
  return fails(error_at("vfork")) != 0;
}

std::string with_flipped_bit(const void* from, std::size_t bytes) {
  std::string other(static_cast<const char*>(from), bytes);
  if (bytes > 0) other[bytes / 2] ^= 1;
  return other;
}

mode_t mode_in(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// Created files alone: what is only read is another kind.
const char* kind_of_open(int flags) {
  return (flags & O_CREAT) != 0 ? "create" : "open";
}

}  // namespace
}  // namespace lockstep::nemesis

using namespace lockstep::nemesis;

extern "C" {

void nemesis_gate(const char* gate) {
  error_at(gate);
  if (std::string_view(gate) != "forward") return;
  if (++target().passes == 1) note(std::string(setting(struck_variable)) + ".trains", "");
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return fails(error_at(kind_of_open(flags), path)) ? -1 : NEXT(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return fails(error_at(kind_of_open(flags), path)) ? -1 : NEXT(open64)(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return fails(error_at(kind_of_open(flags), path)) ? -1 : NEXT(openat)(folder, path, flags, mode);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return fails(error_at("mkdir", path)) ? -1 : NEXT(mkdir)(path, mode);
}

int rename(const char* from, const char* to) noexcept {
  return fails(error_at("rename", to)) ? -1 : NEXT(rename)(from, to);
}

int symlink(const char* from, const char* to) noexcept {
  return fails(error_at("symlink", to)) ? -1 : NEXT(symlink)(from, to);
}

int unlink(const char* path) noexcept {
  return fails(error_at("unlink", path)) ? -1 : NEXT(unlink)(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return fails(error_at("unlink", folder, path)) ? -1 : NEXT(unlinkat)(folder, path, flags);
}

int fsync(int fd) {
  return fails(error_at("fsync", "", fd)) ? -1 : NEXT(fsync)(fd);
}

ssize_t write(int fd, const void* from, size_t bytes) {
  const int error = error_at("write", "send", fd);
  if (error == flipped) return NEXT(write)(fd, with_flipped_bit(from, bytes).data(), bytes);
  return fails(error) ? -1 : NEXT(write)(fd, from, bytes);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  return fails(error_at("write", "send", fd)) ? -1 : NEXT(pwrite)(fd, from, bytes, at);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  return fails(error_at("write", "send", fd)) ? -1 : NEXT(writev)(fd, parts, count);
}

ssize_t send(int fd, const void* from, size_t bytes, int flags) {
  return fails(error_at("write", "send", fd)) ? -1 : NEXT(send)(fd, from, bytes, flags);
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  return fails(error_at("write", "send", fd)) ? -1 : NEXT(sendmsg)(fd, message, flags);
}

ssize_t read(int fd, void* to, size_t bytes) {
  return fails(error_at("read", "recv", fd)) ? -1 : NEXT(read)(fd, to, bytes);
}

ssize_t recv(int fd, void* to, size_t bytes, int flags) {
  return fails(error_at("read", "recv", fd)) ? -1 : NEXT(recv)(fd, to, bytes, flags);
}

/// What programs built with _FORTIFY_SOURCE call in place of open, read and recv where the compiler knows too
/// little.
int __open_2(const char* path, int flags) {  // NOLINT(readability-identifier-naming): the name is glibc's
  return fails(error_at(kind_of_open(flags), path)) ? -1 : NEXT(open)(path, flags, 0);
}

// NOLINTNEXTLINE(readability-identifier-naming): the name is glibc's
ssize_t __read_chk(int fd, void* to, size_t bytes, size_t) {
  return fails(error_at("read", "recv", fd)) ? -1 : NEXT(read)(fd, to, bytes);
}

// NOLINTNEXTLINE(readability-identifier-naming): the name is glibc's
ssize_t __recv_chk(int fd, void* to, size_t bytes, size_t, int flags) {
  return fails(error_at("read", "recv", fd)) ? -1 : NEXT(recv)(fd, to, bytes, flags);
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  return fails(error_at("read", "recv", fd)) ? -1 : NEXT(recvmsg)(fd, message, flags);
}

int connect(int fd, const struct sockaddr* address, socklen_t bytes) {
  return fails(error_at("connect")) ? -1 : NEXT(connect)(fd, address, bytes);
}

int accept4(int fd, struct sockaddr* address, socklen_t* bytes, int flags) {
  return fails(error_at("accept")) ? -1 : NEXT(accept4)(fd, address, bytes, flags);
}

int socket(int domain, int type, int protocol) noexcept {
  return fails(error_at("socket")) ? -1 : NEXT(socket)(domain, type, protocol);
}

int poll(struct pollfd* entries, nfds_t count, int milliseconds) {
  return fails(error_at("poll")) ? -1 : NEXT(poll)(entries, count, milliseconds);
}

int flock(int fd, int operation) noexcept {
  return fails(error_at("flock", "", fd)) ? -1 : NEXT(flock)(fd, operation);
}

int ftruncate(int fd, off_t bytes) noexcept {
  return fails(error_at("ftruncate", "", fd)) ? -1 : NEXT(ftruncate)(fd, bytes);
}

int pipe2(int* ends, int flags) noexcept {
  return fails(error_at("pipe")) ? -1 : NEXT(pipe2)(ends, flags);
}

pid_t fork() noexcept {
  return fails(error_at("fork")) ? -1 : NEXT(fork)();
}

/// The child runs on its parent's stack: this frame must be gone by then, so the call has to be a jump, for
/// which there may be no local of ours whose address is taken.
[[gnu::optimize("O2")]] pid_t vfork() noexcept {
  return refuses_process() ? -1 : NEXT(vfork)();
}

/// Gives its error in place of setting errno.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  const int error = error_at("thread");
  return error != 0 ? error : NEXT(pthread_create)(thread, attributes, function, argument);
}

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return fails(error_at("mmap", "", fd)) ? MAP_FAILED : NEXT(mmap)(at, bytes, protection, flags, fd, offset);
}

int memfd_create(const char* name, unsigned flags) noexcept {
  return fails(error_at("memfd")) ? -1 : NEXT(memfd_create)(name, flags);
}

/// Segments in shared memory wait by it.
long syscall(long call, ...) noexcept {
  va_list arguments;
  va_start(arguments, call);
  long a[6];
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  if (call == SYS_futex && fails(error_at("futex"))) return -1;
  return NEXT(syscall)(call, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}
