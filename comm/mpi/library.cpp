#include "comm/mpi/library.h"

#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/session.h"

namespace lockstep::comm {
namespace {

class Meeting final : public MpiMeeting {
 public:
  Meeting(const World& world, Seconds timeout) : communicator_(world, {.timeout = timeout}) {}

  std::string broadcast(std::string_view from_rank_0) override {
    return communicator_.all_gather(communicator_.world().rank == 0 ? from_rank_0 : "").front();
  }

 private:
  MpiCommunicator communicator_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const World& world, const CommOptions& options) {
  return std::make_unique<MpiCommunicator>(world, options);
}

std::unique_ptr<MpiMeeting> open_mpi_meeting(const World& world, Seconds timeout) {
  return std::make_unique<Meeting>(world, timeout);
}

std::string_view mpi_in_this_build() {
  return "built in";
}

}  // namespace lockstep::comm
