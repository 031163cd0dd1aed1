#pragma once

#include "kernels/base/unique_fd.h"

namespace lockstep {

/// ^Z: SIGTSTP waits until the process has prepared for being suspended. Ignored when the process started, it
/// stays ignored.
class JobControl {
 public:
  /// Blocks SIGTSTP in this thread and in those that it starts.
  JobControl();

  /// Readable while a SIGTSTP waits; -1 if it is ignored.
  int fd() const { return pending_.get(); }
  /// Lets it act: returns when the process is continued, or at once when SIGCONT has come already, or there
  /// is no shell that could continue the process. `Clock` stands still meanwhile.
  void suspend() const;

 private:
  UniqueFd pending_;
};

}  // namespace lockstep
