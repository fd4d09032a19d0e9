// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "serving/serving.h"

#include <gflags/gflags.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iostream>
#include <optional>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/fiber/runtime.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"

DEFINE_string(listen, "127.0.0.1:8080",
              "Where to listen: 1.2.3.4:port, [v6]:port or unix:/path. Port 0: any free one.");
DEFINE_uint64(max_connections, 0, "Connections served at once; more wait in the kernel. 0: no limit.");
DEFINE_double(duration, 0, "Seconds to run. 0: until SIGINT or SIGTERM.");
DEFINE_double(drain, 5, "Seconds that connections have to finish after the end was asked for.");

namespace examples {
namespace {

using weft::Deadline;

// The soft limit is low for the sake of select(), which nobody uses here.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);  // On failure the listener reports when descriptors run out.
}

// Blocks the end signals in this thread and in those that it starts, so that only AwaitEnd() gets them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void AwaitEnd(const sigset_t& signals, Deadline end) {
  for (;;) {
    if (end.is_none()) {
      if (::sigwaitinfo(&signals, nullptr) > 0) return;
      continue;
    }
    const std::chrono::nanoseconds left = end.remaining();
    timespec timeout{};
    timeout.tv_sec = left / std::chrono::seconds(1);
    timeout.tv_nsec = (left % std::chrono::seconds(1)).count();
    if (::sigtimedwait(&signals, nullptr, &timeout) > 0 || errno == EAGAIN) return;
  }
}

}  // namespace

int Serving::Fail(int status, const std::string& why) const {
  std::cerr << name_ << ": " << why << '\n';
  return status;
}

int Serving::Run(std::function<void(weft::io::TcpStream&)> handler) {
  const std::optional<weft::io::SocketAddress> address = weft::io::SocketAddress::Parse(FLAGS_listen);
  if (!address) {
    return Fail(2, "--listen=" + FLAGS_listen + ": expected 1.2.3.4:port, [v6]:port or unix:/path (no host names)");
  }
  if (!(FLAGS_duration >= 0)) return Fail(2, "--duration: expected seconds, or 0 for no end");
  if (!(FLAGS_drain >= 0)) return Fail(2, "--drain: expected seconds, 0 or more");

  RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();
  weft::io::TcpListener listener;
  if (const std::error_code error = listener.Listen(*address)) {
    return Fail(1, "cannot listen on " + FLAGS_listen + ": " + error.message());
  }

  weft::fiber::StartRuntime();
  bool started = false;
  {
    weft::io::TcpServer server(std::move(listener), std::move(handler), {.max_connections = FLAGS_max_connections});
    server_ = &server;
    started = server.Start();
    if (started) {
      std::cout << name_ << ": listening on " << server.local_address().ToString() << std::endl;
      const std::chrono::duration<double> duration(FLAGS_duration);
      AwaitEnd(signals, FLAGS_duration > 0 ? Deadline(duration) : Deadline());
      stopping_.store(true, std::memory_order_relaxed);
      server.Stop(std::chrono::duration<double>(FLAGS_drain));
      std::cout << name_ << ": served " << server.counts().accepted << " connections" << std::endl;
    }
  }
  weft::fiber::TerminateRuntime();
  return started ? 0 : Fail(1, "no fiber could be started to accept connections");
}

}  // namespace examples
