#include "runtime/stop_request.h"

#include <csignal>

namespace lockstep::runtime {
namespace {

// A signal handler can reach nothing but static storage.
volatile std::sig_atomic_t requested = 0;

void handle(int signal_number) {
  requested = 1;
  if (signal_number != SIGUSR1) std::signal(signal_number, SIG_DFL);
}

constexpr int signals[] = {SIGTERM, SIGUSR1, SIGINT};

}  // namespace

StopRequest::StopRequest() {
  requested = 0;
  for (const int signal_number : signals) {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal_number, &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (const int signal_number : signals) std::signal(signal_number, SIG_DFL);
}

bool StopRequest::made() const {
  return requested != 0;
}

}  // namespace lockstep::runtime
