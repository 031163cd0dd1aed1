#pragma once

namespace lockstep::runtime {

/// Turns SIGTERM, SIGUSR1 and SIGINT into a wish that the training loop reads once a step. A second SIGTERM
/// or SIGINT ends the process at once. The handlers are taken back with the object; one at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool made() const;
};

}  // namespace lockstep::runtime
