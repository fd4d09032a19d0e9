// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RespServer: a store that speaks the Redis protocol. The TcpServer calls Serve() when a connection has bytes.
//
//     wait, without a fiber  ->  read  ->  run all requests that came  ->  write all answers
//
// Requests that came together share one read and one write. A connection that pipelines without end has turns, and lets
// others run between them (weft/io/tcp_connection.h). Of a connection that waits the server keeps only the descriptor
// and the number.
#ifndef WEFT_EXAMPLES_RESP_SERVER_RESP_SERVER_H_
#define WEFT_EXAMPLES_RESP_SERVER_RESP_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/net/budgets.h"

#include "resp_server/commands.h"
#include "resp_server/store.h"
#include "resp_server/workspace.h"
#include "serving/serving.h"

namespace examples::resp {

class RespServer final : private CommandHost {
 public:
  struct Limits {
    RespParser::Limits parser{};
    std::size_t request_bytes = std::size_t{1} << 30;
    std::size_t unfinished_bytes = 0;              // memory of all requests whose rest is awaited; 0: no limit
    std::chrono::milliseconds request_timeout{0};  // from its first bytes to its last; 0: no limit
  };

  // Must outlive the runtime, because it sets a timer (which ends with the runtime).
  RespServer(const Limits& limits, const Serving* serving);

  // Answers all requests whose bytes are ready.
  weft::io::AfterRequest Serve(weft::io::TcpConnection* connection);

 private:
  // How often expired keys that nobody asks for are removed, and how many of a shard under one lock.
  static constexpr std::chrono::milliseconds kSweepEvery{100};
  static constexpr std::size_t kSweepBatch = 256;

  Store& store() override { return store_; }
  std::string Info() override;
  void Shutdown() override;

  // Of its connection; the first call gives it.
  std::uint64_t IdOf(weft::io::TcpConnection* connection);
  // False: the connection ends.
  bool AnswerAll(Workspace* workspace, Session* session, weft::io::TcpConnection* connection);
  // Before the rest of a request is awaited. False: there is no memory for it, and the connection ends.
  static bool MayGoOn(const Workspace& workspace, weft::io::RequestBudget::Share* unfinished, ReplyWriter* reply);
  // The client has gone, or does not read its answers.
  void EndBroken(weft::io::TcpStream* stream, std::error_code error);
  void Sweep();

  const Limits limits_;
  const Serving* const serving_;
  const std::chrono::steady_clock::time_point started_at_;
  Store store_;
  WorkspacePool workspaces_;
  weft::io::RequestBudget unfinished_;  // memory of requests whose rest is awaited
  // relaxed, all: they carry nothing else.
  std::atomic<std::uint64_t> last_id_{0};
  std::atomic<std::uint64_t> commands_{0};
  std::atomic<std::uint64_t> timed_out_requests_{0};
  std::atomic<std::uint64_t> timed_out_writes_{0};
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_RESP_SERVER_H_
