// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/resp_server.h"

#include <signal.h>
#include <unistd.h>

#include <any>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "weft/fiber/this_fiber.h"
#include "weft/timer/fiber_timer.h"

namespace examples::resp {

using weft::io::RequestBudget;

namespace {

// Closing with unread bytes makes the kernel reset the connection, and the peer may lose the last answer. So tell the
// peer that it was the last, and give it a little time to close.
void CloseGently(weft::io::TcpStream* stream) {
  constexpr std::chrono::milliseconds kPatience{500};
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  stream->ShutdownWrite();
  const weft::Deadline until = kPatience;
  char discarded[512];
  for (std::size_t bytes = 0; bytes < kMostBytes;) {
    const weft::io::IoResult got = stream->ReadSome(discarded, sizeof(discarded), until);
    if (got.bytes == 0) return;
    bytes += got.bytes;
  }
}

// 0: no limit.
weft::Deadline UntilAfter(std::chrono::milliseconds timeout) {
  return timeout.count() > 0 ? weft::Deadline(timeout) : weft::Deadline();
}

}  // namespace

RespServer::RespServer(const Limits& limits, const Serving* serving)
    : limits_(limits),
      serving_(serving),
      started_at_(std::chrono::steady_clock::now()),
      workspaces_(limits.parser),
      unfinished_({.bytes = limits.unfinished_bytes}) {}

std::uint64_t RespServer::IdOf(weft::io::TcpConnection* connection) {
  if (!connection->state().has_value()) {
    const std::uint64_t id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (id == 1) {
      weft::SetFiberDetachedTimer(std::chrono::steady_clock::now() + kSweepEvery, kSweepEvery, [this] { Sweep(); });
    }
    connection->state() = id;
  }
  return std::any_cast<std::uint64_t>(connection->state());
}

weft::io::AfterRequest RespServer::Serve(weft::io::TcpConnection* connection) {
  using weft::io::AfterRequest;
  weft::io::TcpStream* const stream = &connection->stream();
  std::unique_ptr<Workspace> workspace = workspaces_.Take();
  ReplyWriter reply(stream, &workspace->output);
  Session session{.host = this, .id = IdOf(connection), .reply = &reply};
  RequestBudget::Share unfinished(&unfinished_);
  std::size_t missing = 1;
  weft::Deadline request_until;  // of the request that has begun; it has none while none has
  do {
    const std::span<char> room = workspace->input.Room(missing);
    // The rest of a request is awaited, also in a drain.
    const weft::io::IoResult got =
        workspace->input.empty() ? connection->ReadRequest(room) : stream->ReadSome(room, request_until);
    if (got.bytes == 0) {
      if (workspace->input.empty()) {
        workspaces_.Put(std::move(workspace));
      } else if (got.error == std::errc::timed_out) {
        timed_out_requests_.fetch_add(1, std::memory_order_relaxed);
      }
      return AfterRequest::kClose;
    }
    workspace->input.Filled(got.bytes);
    const std::size_t unread = workspace->input.unread().size();
    const bool goes_on = AnswerAll(workspace.get(), &session, connection) && MayGoOn(*workspace, &unfinished, &reply);
    if (!reply.Flush()) {
      EndBroken(stream, reply.error());
      return AfterRequest::kClose;
    }
    // A drain ends nothing here: the protocol cannot say that an answer is the last, and more requests may have come.
    if (!goes_on) {
      CloseGently(stream);
      return AfterRequest::kClose;
    }
    missing = workspace->parser.missing();
    const bool begins = request_until.is_none() || workspace->input.unread().size() < unread;
    if (begins && !workspace->input.empty()) request_until = UntilAfter(limits_.request_timeout);
  } while (!workspace->input.empty());
  workspaces_.Put(std::move(workspace));
  return AfterRequest::kWaitForNext;
}

bool RespServer::MayGoOn(const Workspace& workspace, RequestBudget::Share* unfinished, ReplyWriter* reply) {
  if (workspace.input.empty()) return true;
  const std::size_t bytes = workspace.BytesFor(workspace.parser.missing());
  if (bytes <= unfinished->bytes() || unfinished->Take(bytes - unfinished->bytes())) return true;
  reply->Error("ERR no memory for unfinished requests");
  return false;
}

void RespServer::EndBroken(weft::io::TcpStream* stream, std::error_code error) {
  if (error != std::errc::timed_out) return;
  timed_out_writes_.fetch_add(1, std::memory_order_relaxed);
  stream->Reset();  // A close would leave megabytes of answers in the kernel, until it gives the client up as well.
}

bool RespServer::AnswerAll(Workspace* workspace, Session* session, weft::io::TcpConnection* connection) {
  RespParser& parser = workspace->parser;
  ReadBuffer& input = workspace->input;
  std::uint64_t commands = 0;
  bool goes_on = true;
  while (goes_on && !input.empty()) {
    const std::span<char> unread = input.unread();
    const RespParser::Result result = parser.Parse(unread.data(), unread.size());
    if (result == RespParser::Result::kIncomplete) {
      if (unread.size() + parser.missing() <= limits_.request_bytes) break;
      session->reply->Error("ERR Protocol error: too big request");
      goes_on = false;
    } else if (result == RespParser::Result::kError) {
      session->reply->Error("ERR " + parser.error());
      goes_on = false;
    } else {
      if (!parser.arguments().empty()) {
        ExecuteCommand(parser.arguments(), session);
        ++commands;
      }
      input.Consume(parser.consumed());
      if (connection->CountRequest() && session->reply->Flush()) {
        commands_.fetch_add(std::exchange(commands, 0), std::memory_order_relaxed);  // GiveWay() may throw.
        connection->GiveWay();
      }
      goes_on = !session->ends && !session->reply->broken();
    }
  }
  commands_.fetch_add(commands, std::memory_order_relaxed);
  return goes_on;
}

void RespServer::Sweep() {
  while (store_.RemoveExpired(kSweepBatch) >= kSweepBatch) weft::FiberYield();
}

// As a signal would, for which main() waits.
void RespServer::Shutdown() { ::kill(::getpid(), SIGTERM); }

std::string RespServer::Info() {
  const weft::io::TcpServer::Counts counts = serving_->counts();
  const RequestBudget::Counts unfinished = unfinished_.counts();
  const auto uptime = std::chrono::steady_clock::now() - started_at_;
  std::string text = "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nserver_name:weft\r\n";
  const auto add = [&text](std::string_view name, std::uint64_t number) {
    text.append(name).append(":").append(std::to_string(number)).append("\r\n");
  };
  add("process_id", static_cast<std::uint64_t>(::getpid()));
  add("uptime_in_seconds", static_cast<std::uint64_t>(uptime / std::chrono::seconds(1)));
  text += "\r\n# Clients\r\n";
  add("connected_clients", counts.open);
  text += "\r\n# Stats\r\n";
  add("total_connections_received", counts.accepted);
  add("rejected_connections", counts.refused);
  add("rejected_over_host_limit", counts.over_host_limit);  // Of them.
  add("unfinished_bytes", unfinished.bytes);
  add("refused_unfinished", unfinished.over_bytes);
  add("timed_out_idle", counts.timed_out);
  add("timed_out_requests", timed_out_requests_.load(std::memory_order_relaxed));
  add("timed_out_writes", timed_out_writes_.load(std::memory_order_relaxed));
  add("total_commands_processed", commands_.load(std::memory_order_relaxed));
  return text;
}

}  // namespace examples::resp
