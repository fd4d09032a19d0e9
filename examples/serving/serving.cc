// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "serving/serving.h"

#include <gflags/gflags.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/examples/serving/memory_trim.h"
#include "weft/fiber/runtime.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/tcp_listener.h"

#include "serving/counts.h"
#include "serving/open_listener.h"

DEFINE_string(listen, "127.0.0.1:8080",
              "Where to listen: 1.2.3.4:port, [v6]:port, unix:/path, fd:<number> or systemd. Port 0: any free one.");
DEFINE_uint64(max_connections, 0, "Connections served at once; more wait in the kernel. 0: no limit.");
DEFINE_uint64(max_connections_per_host, 0, "Connections of one client address at once; more are reset. 0: no limit.");
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

}  // namespace

int Serving::Fail(int status, const std::string& why) const {
  std::cerr << name_ << ": " << why << '\n';
  return status;
}

template <class Handler>
int Serving::RunAny(Handler handler, Options options) {
  if (!(FLAGS_duration >= 0)) return Fail(2, "--duration: expected seconds, or 0 for no end");
  if (!(FLAGS_drain >= 0)) return Fail(2, "--drain: expected seconds, 0 or more");

  RaiseDescriptorLimit();
  weft::io::TcpListener listener;
  std::string why;
  if (const int status = OpenListener(FLAGS_listen, &listener, &why); status != 0) return Fail(status, why);
  if (keep_alive_.enabled) (void)listener.SetKeepAlive(keep_alive_);

  std::optional<weft::io::TcpServer> server;
  std::optional<MemoryTrim> trim;
  const auto start = [&] {
    weft::StartRuntime();
    options.max_connections = FLAGS_max_connections;
    options.max_connections_per_host = FLAGS_max_connections_per_host;
    server_ = &server.emplace(std::move(listener), std::move(handler), std::move(options));
    if (!server->Start() || !trim.emplace().Start()) return false;
    std::cout << name_ << ": listening on " << server->local_address().ToString() << std::endl;
    return !start_beside_ || start_beside_();
  };
  const std::chrono::duration<double> duration(FLAGS_duration);
  const bool started = weft::io::RunUntilSignal(start, FLAGS_duration > 0 ? Deadline(duration) : Deadline()) >= 0;
  if (started) {
    stopping_.store(true, std::memory_order_relaxed);
    server->Stop(std::chrono::duration<double>(FLAGS_drain));
    std::cout << name_ << ": connections: " << ToLine(Named(server->counts())) << std::endl;
  }
  if (stop_beside_) stop_beside_();
  trim.reset();
  server.reset();
  weft::TerminateRuntime();
  return started ? 0 : Fail(1, "no fiber could be started to accept connections");
}

template int Serving::RunAny(weft::io::RequestHandler, Options);
template int Serving::RunAny(weft::io::TcpServer::ConnectionHandler, Options);
template int Serving::RunAny(weft::io::TcpServer::Handler, Options);

}  // namespace examples
