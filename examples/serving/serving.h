// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the servers among the examples share: flags, and a life from listen() to a graceful end.
//
//   int main(int argc, char** argv) {
//     gflags::ParseCommandLineFlags(&argc, &argv, true);
//     Serving serving("echo");
//     return serving.Run([](weft::io::TcpConnection& connection) { ... });
//   }
//
// --listen            where (serving/open_listener.h); port 0 lets the kernel choose. "<name>: listening on
//                     127.0.0.1:41234" on standard output tells the address, as soon as connections are accepted
// --max_connections   at once; others wait in the kernel
// --max_connections_per_host    of a client address at once; others are reset
// --duration          seconds, 0: until SIGINT or SIGTERM
// --drain             seconds that requests have to end by themselves afterwards
// --trim_memory_ms    how often a quiet server gives memory back (serving/memory_trim.h)
// and the flags of the runtime (--fiber_concurrency_hint ...).
//
// Run() raises the limit of descriptors to the process's maximum, and prints at its end what the TcpServer has counted.
// It returns main()'s status: 0 after a regular end, 1 if it could not listen, 2 for impossible flags.
#ifndef WEFT_EXAMPLES_SERVING_SERVING_H_
#define WEFT_EXAMPLES_SERVING_SERVING_H_

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "weft/io/tcp_liveness.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"

namespace examples {

class Serving {
 public:
  explicit Serving(std::string name) : name_(std::move(name)) {}

  using Options = weft::io::TcpServer::Options;

  // Before Run(): how TCP asks silent clients whether they are there. By default it does not. Unix sockets need none.
  void SetKeepAlive(const weft::io::TcpKeepAlive& keep_alive) { keep_alive_ = keep_alive; }

  // Before Run(): what serves beside it. `start` is called in the runtime, when the server listens; false ends Run()
  // with status 1. `stop` is called after the server's drain.
  void SetBeside(std::function<bool()> start, std::function<void()> stop) {
    start_beside_ = std::move(start);
    stop_beside_ = std::move(stop);
  }

  // A plain thread, once. The handler is called in a fiber for each connection, or for each request. What a drain does
  // to the three kinds of handlers: weft/io/tcp_server.h. Of the options only those that no flag sets count.
  int Run(weft::io::RequestHandler handler, Options options = {}) { return RunAny(std::move(handler), options); }
  int Run(weft::io::TcpServer::ConnectionHandler handler) { return RunAny(std::move(handler), {}); }
  int Run(weft::io::TcpServer::Handler handler) { return RunAny(std::move(handler), {}); }

  // --- By the handlers ---
  // Nothing more is accepted: a handler that would wait for another request must end instead.
  bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }  // A hint: the streams end too.
  weft::io::TcpServer::Counts counts() const { return server_->counts(); }

 private:
  template <class Handler>
  int RunAny(Handler handler, Options options);
  int Fail(int status, const std::string& why) const;

  const std::string name_;
  weft::io::TcpKeepAlive keep_alive_{.enabled = false};
  std::function<bool()> start_beside_;
  std::function<void()> stop_beside_;
  std::atomic<bool> stopping_{false};
  const weft::io::TcpServer* server_ = nullptr;  // set before the first handler is started
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_SERVING_H_
