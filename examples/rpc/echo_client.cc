// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A benchmark of the RPC: --callers fibers call EchoService, each again as soon as it has its answer.
//
//   echo_server --listen=127.0.0.1:8000 --fiber_concurrency_hint=1 &
//   echo_client --server=127.0.0.1:8000 --fiber_concurrency_hint=1 --callers=50 --connections=1 --rounds=5
//
// Each round prints calls per second and the time of a call; the last line the best and the median round. Every answer
// is compared with the question; a wrong or failed one ends the program with status 1.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/io/socket_address.h"

#include "examples/rpc/echo.pb.h"

DEFINE_string(server, "127.0.0.1:8000", "The echo_server's address");
DEFINE_int32(callers, 50, "Fibers that call");
DEFINE_int32(connections, 1, "Connections of the channel");
DEFINE_int32(payload, 16, "Bytes in a message");
DEFINE_int32(attachment, 0, "Bytes beside the message, which are not copied into it");
DEFINE_double(seconds, 2, "Time of a round");
DEFINE_int32(rounds, 5, "Rounds");
DEFINE_int32(timeout_ms, 1000, "Deadline of each call; 0: none");

namespace {

using Steady = std::chrono::steady_clock;
using weft::rpc::Channel;
using weft::rpc::Controller;

struct Round {
  double calls_per_second = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
};

std::atomic<std::uint64_t> failed_calls{0};

void Fail(const std::string& text) {
  if (failed_calls.fetch_add(1) == 0) std::cerr << "a call failed: " << text << "\n";
}

bool IsSame(const weft::rpc::Attachment& got, const weft::NoncontiguousBuffer& sent) {
  return sent.Empty() ? got.Empty() : got.Get() == sent;
}

// Calls until then; returns each call's time in nanoseconds.
std::vector<std::uint32_t> Call(Channel& channel, int caller, Steady::time_point until) {
  weft::rpc::EchoService::Stub stub(&channel);
  std::vector<std::uint32_t> times;
  Controller controller;
  weft::rpc::EchoRequest request;
  weft::rpc::EchoAnswer answer;
  std::string payload(static_cast<std::size_t>(FLAGS_payload), 'x');
  const weft::NoncontiguousBuffer attachment(std::string(static_cast<std::size_t>(FLAGS_attachment), 'y'));
  Steady::time_point before = Steady::now();
  for (std::uint64_t n = 0; before < until; ++n) {
    const std::string mark = std::to_string(caller) + ":" + std::to_string(n);
    std::copy_n(mark.begin(), std::min(mark.size(), payload.size()), payload.begin());
    request.set_payload(payload);
    controller.Reset();
    if (!attachment.Empty()) controller.request_attachment() = attachment;
    if (FLAGS_timeout_ms != 0) controller.set_timeout(std::chrono::milliseconds(FLAGS_timeout_ms));
    stub.Echo(&controller, &request, &answer, nullptr);
    const Steady::time_point after = Steady::now();
    if (controller.Failed()) {
      Fail(controller.ErrorText());
    } else if (answer.payload() != payload || !IsSame(controller.answer_attachment(), attachment)) {
      Fail("the answer is not what was sent");
    }
    times.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>((after - before).count(), UINT32_MAX)));
    before = after;
  }
  return times;
}

Round RunRound(Channel& channel) {
  const Steady::time_point start = Steady::now();
  const auto until = start + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(FLAGS_seconds));
  std::vector<std::vector<std::uint32_t>> of_callers(static_cast<std::size_t>(FLAGS_callers));
  std::vector<weft::Fiber> callers;
  for (int i = 0; i < FLAGS_callers; ++i) {
    callers.emplace_back([&, i] { of_callers[static_cast<std::size_t>(i)] = Call(channel, i, until); });
  }
  for (weft::Fiber& caller : callers) caller.Join();
  const double seconds = std::chrono::duration<double>(Steady::now() - start).count();

  std::vector<std::uint32_t> all;
  for (const auto& times : of_callers) all.insert(all.end(), times.begin(), times.end());
  std::sort(all.begin(), all.end());
  const auto at = [&](double part) {
    return all[std::min(all.size() - 1, static_cast<std::size_t>(part * static_cast<double>(all.size())))] / 1e3;
  };
  return {.calls_per_second = static_cast<double>(all.size()) / seconds,
          .mean_us = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()) / 1e3,
          .p50_us = at(0.5),
          .p99_us = at(0.99),
          .p999_us = at(0.999)};
}

void Print(const std::string& name, const Round& round) {
  std::cout << std::left << std::setw(8) << name << std::right << std::fixed << std::setprecision(0) << std::setw(9)
            << round.calls_per_second << " calls/s" << std::setprecision(1) << "   mean " << round.mean_us << "   p50 "
            << round.p50_us << "   p99 " << round.p99_us << "   p99.9 " << round.p999_us << " us" << std::endl;
}

bool Run(const weft::io::SocketAddress& server) {
  Channel channel(server, {.connections = static_cast<std::size_t>(FLAGS_connections)});
  if (!channel.Start()) return false;
  std::vector<Round> rounds;
  for (int i = 1; i <= FLAGS_rounds; ++i) {
    rounds.push_back(RunRound(channel));
    Print(std::to_string(i), rounds.back());
  }
  std::sort(rounds.begin(), rounds.end(),
            [](const Round& a, const Round& b) { return a.calls_per_second > b.calls_per_second; });
  Print("best", rounds.front());
  Print("median", rounds[rounds.size() / 2]);
  const Channel::Counts counts = channel.counts();
  const auto each = [](std::uint64_t frames, std::uint64_t calls) {
    return static_cast<double>(frames) / static_cast<double>(std::max<std::uint64_t>(calls, 1));
  };
  std::cout << "requests " << counts.requests << ", " << each(counts.requests, counts.writes) << " a write; answers "
            << counts.answers << ", " << each(counts.answers, counts.reads) << " a read" << std::endl;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const auto server = weft::io::SocketAddress::Parse(FLAGS_server);
  if (!server || FLAGS_callers < 1 || FLAGS_connections < 1 || FLAGS_payload < 0 || FLAGS_attachment < 0 ||
      FLAGS_rounds < 1 || FLAGS_seconds <= 0 || FLAGS_timeout_ms < 0) {
    std::cerr << "usage: echo_client --server=127.0.0.1:8000, all numbers above zero (see --help)\n";
    return 2;
  }
  weft::StartRuntime();
  bool started = false;
  weft::Fiber([&] { started = Run(*server); }).Join();
  weft::TerminateRuntime();
  if (failed_calls != 0) std::cerr << failed_calls << " calls failed\n";
  return started && failed_calls == 0 ? 0 : 1;
}
