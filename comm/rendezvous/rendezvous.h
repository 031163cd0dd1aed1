#pragma once

#include <memory>
#include <string>

#include "comm/store/client.h"
#include "comm/store/credentials.h"
#include "comm/store/server.h"

namespace lockstep::comm {

struct Rendezvous {
  std::unique_ptr<StoreServer> server;
  std::string address;
  int port = 0;
  StoreClient store;
  Credentials credentials;
  std::string own_address;
  std::shared_ptr<void> keep_alive;
};

}  // namespace lockstep::comm
