#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/tcp.h"

namespace lockstep::tests {

/// A server of HTTP on the loopback interface. It answers one request after another.
class HttpServer {
 public:
  struct Answer {
    int status = 200;
    std::string body{};
    std::string headers{};                ///< more of them, each with its "\r\n"
    std::size_t missing = 0;              ///< bytes of the body that it promises and does not send
    bool stays_open = false;              ///< the connection, until the server ends
    std::function<void()> before_body{};  ///< between the headers and the body
  };
  using Answers = std::function<Answer(const std::string& path)>;

  explicit HttpServer(Answers answers)
      : answers_(std::move(answers)),
        listener_(comm::listen_tcp("127.0.0.1", 0)),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this] { run(); }) {}
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(comm::local_port(listener_.get())); }
  /// How often a path was asked for.
  std::map<std::string, int> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void run() {
    while (true) {
      pollfd waits[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      ::poll(waits, 2, -1);
      if (waits[1].revents != 0) return;
      UniqueFd client = comm::accept_tcp(listener_.get());
      if (client && answer(client.get())) open_.push_back(std::move(client));
    }
  }

  /// Whether the connection stays open.
  bool answer(int client) {
    const Deadline deadline = Deadline::in(Seconds(10));
    std::string request;
    while (request.find("\r\n\r\n") == std::string::npos) {
      if (!comm::wait_for_socket(client, POLLIN, deadline)) return false;
      if (comm::receive_some(client, request) == comm::Transfer::closed) return false;
    }
    const std::size_t path = request.find(' ') + 1;
    const std::string asked = request.substr(path, request.find(' ', path) - path);
    {
      const std::lock_guard lock(mutex_);
      ++requests_[asked];
    }
    const Answer what = answers_(asked);
    send(client, "HTTP/1.1 " + std::to_string(what.status) + " -\r\nConnection: close\r\nContent-Length: " +
                     std::to_string(what.body.size() + what.missing) + "\r\n" + what.headers + "\r\n");
    if (what.before_body) what.before_body();
    send(client, what.body);
    return what.stays_open;
  }

  static void send(int client, std::string_view bytes) {
    const Deadline deadline = Deadline::in(Seconds(10));
    while (!bytes.empty() && comm::wait_for_socket(client, POLLOUT, deadline)) {
      if (comm::send_some(client, bytes) == comm::Transfer::closed) return;
    }
  }

  const Answers answers_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  std::vector<UniqueFd> open_;
  mutable std::mutex mutex_;
  std::map<std::string, int> requests_;
  std::thread thread_;
};

}  // namespace lockstep::tests
