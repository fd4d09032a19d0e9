// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The client of greeter.proto without gRPC's library: by interop/http2_grpc_client.h, on fibers all the way down.
//
//   grpc_http2_client --server=127.0.0.1:50051 --fibers=100 --calls=20000
//   grpc_http2_client --server=a:50051,b:50051 --hedge_ms=20    two servers; slow calls are made at both
//   grpc_http2_client --server=127.0.0.1:50051 --ask=hello      one call; prints its answer, or how it has failed
//
// First each fiber calls Echo in a loop, then each kind of stream is used once. Every answer is compared with the
// question.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/sync/fiber_mutex.h"

#include "examples/grpc_server/greeter.pb.h"

DEFINE_string(server, "127.0.0.1:50051", "Whom to call: host:port or unix:/path, several by commas");
DEFINE_int32(fibers, 100, "Fibers that call at the same time");
DEFINE_int32(calls, 20000, "Echo calls in all");
DEFINE_int32(payload, 32, "Bytes in each call");
DEFINE_int32(delay_ms, 0, "How long the server's handler takes for each");
DEFINE_int32(deadline_ms, 10000, "Milliseconds after which a call is given up");
DEFINE_int32(attempts, 3, "How often an Echo call is made, if servers are not available");
DEFINE_int32(hedge_ms, 0, "Milliseconds after which a slow Echo call is made a second time; 0: never");
DEFINE_int32(messages, 50, "Length of each stream");
DEFINE_string(ask, "", "One Echo call with this text, and nothing else");

namespace weft::examples {
namespace {

using Steady = std::chrono::steady_clock;
using interop::GrpcCallOptions;
using interop::GrpcClientCall;
using interop::GrpcStatus;
using interop::Http2GrpcClient;

constexpr const char* kEcho = "/weft.examples.Greeter/Echo";

GrpcCallOptions InTime() { return {.deadline = std::chrono::milliseconds(FLAGS_deadline_ms)}; }

bool Refused(const char* what, const GrpcStatus& status) {
  std::cerr << what << ": status " << static_cast<int>(status.code) << ": " << status.message << '\n';
  return false;
}

// --- Many calls at once ---

struct Tally {
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
  FiberMutex mutex;
  std::vector<Steady::duration> took;  // Of right answers.
};

// One fiber: calls until --calls are made.
void CallInALoop(Http2GrpcClient& client, Tally* tally) {
  std::vector<Steady::duration> took;
  EchoRequest request;
  request.set_delay_ms(static_cast<std::uint32_t>(FLAGS_delay_ms));
  EchoReply reply;
  for (int call = tally->next++; call < FLAGS_calls; call = tally->next++) {
    std::string payload = std::to_string(call);
    payload.resize(static_cast<std::size_t>(FLAGS_payload), '.');
    request.set_payload(payload);
    const auto begin = Steady::now();
    const GrpcStatus status = client.Call(kEcho, request, &reply, InTime());
    const auto duration = Steady::now() - begin;
    if (status.ok() && reply.payload() == payload) {
      took.push_back(duration);
    } else if (tally->wrong++ == 0) {
      Refused("the first call that failed", status);
    }
  }
  const std::scoped_lock lock(tally->mutex);
  tally->took.insert(tally->took.end(), took.begin(), took.end());
}

bool EchoFromManyFibers(Http2GrpcClient& client) {
  Tally tally;
  const auto begin = Steady::now();
  {
    FiberScope scope;
    for (int i = 0; i < FLAGS_fibers; ++i) {
      if (!scope.Spawn([&] { CallInALoop(client, &tally); })) return Refused("a fiber could not be started", {});
    }
    scope.Wait();
  }
  const std::chrono::duration<double> seconds = Steady::now() - begin;
  std::sort(tally.took.begin(), tally.took.end());
  const auto percentile = [&](std::size_t percent) {
    const std::size_t at = (tally.took.size() - 1) * percent / 100;
    return std::chrono::duration_cast<std::chrono::microseconds>(tally.took[at]).count();
  };
  std::cout << tally.took.size() << " of " << FLAGS_calls << " calls were answered, from " << FLAGS_fibers
            << " fibers in " << seconds.count()
            << " s: " << static_cast<std::int64_t>(static_cast<double>(tally.took.size()) / seconds.count())
            << " calls/s";
  if (!tally.took.empty()) {
    std::cout << "; half of them within " << percentile(50) << " us, 99 % within " << percentile(99) << " us";
  }
  std::cout << '\n';
  return tally.wrong == 0;
}

// --- Streams ---

bool ReadGreetings(Http2GrpcClient& client) {
  GreetRequest request;
  request.set_name("fibers");
  request.set_times(static_cast<std::uint32_t>(FLAGS_messages));
  GrpcClientCall call = client.Open("/weft.examples.Greeter/Greet", InTime());
  if (call.Write(request)) call.WritesDone();
  GreetReply reply;
  int count = 0;
  while (call.Read(&reply)) {
    const std::string want = "hello fibers, for the " + std::to_string(++count) + ". time";
    if (reply.greeting() != want) return Refused("Greet: another greeting", {});
  }
  const GrpcStatus status = call.Finish();
  return (status.ok() && count == FLAGS_messages) || Refused("Greet", status);
}

bool JoinPayloads(Http2GrpcClient& client) {
  GrpcClientCall call = client.Open("/weft.examples.Greeter/EchoJoined", InTime());
  EchoRequest request;
  std::string all;
  for (int i = 0; i < FLAGS_messages; ++i) {
    request.set_payload(std::string(static_cast<std::size_t>(i * 100), static_cast<char>('a' + i % 26)));
    all += request.payload();
    if (!call.Write(request)) break;
  }
  call.WritesDone();
  EchoReply reply;
  const bool came = call.Read(&reply);
  const GrpcStatus status = call.Finish();
  return (status.ok() && came && reply.payload() == all) || Refused("EchoJoined", status);
}

// One fiber writes while another one reads.
bool EchoBothWays(Http2GrpcClient& client) {
  GrpcClientCall call = client.Open("/weft.examples.Greeter/EchoAll", InTime());
  FiberScope scope;
  const bool writes = scope.Spawn([&] {
    EchoRequest request;
    for (int i = 0; i < FLAGS_messages; ++i) {
      request.set_payload(std::to_string(i));
      if (!call.Write(request)) break;
    }
    call.WritesDone();
  });
  if (!writes) return Refused("a fiber could not be started", {});
  EchoReply reply;
  int count = 0;
  while (call.Read(&reply) && reply.payload() == std::to_string(count)) ++count;
  scope.Wait();
  const GrpcStatus status = call.Finish();
  return (status.ok() && count == FLAGS_messages) || Refused("EchoAll", status);
}

bool Ask(Http2GrpcClient& client) {
  EchoRequest request;
  request.set_payload(FLAGS_ask);
  request.set_delay_ms(static_cast<std::uint32_t>(FLAGS_delay_ms));
  EchoReply reply;
  interop::GrpcAnswer answer;
  const GrpcStatus status = client.Call(kEcho, request, &reply, InTime(), &answer);
  std::cout << "status " << static_cast<int>(status.code) << ": " << (status.ok() ? reply.payload() : status.message)
            << '\n';
  for (const interop::Http2Field field : answer.trailers) {
    if (field.name.starts_with("x-")) std::cout << field.name << ": " << field.value << '\n';
  }
  return status.ok();
}

bool CallServers() {
  Http2GrpcClient::Options options;
  options.policy.retry.max_attempts = static_cast<std::size_t>(FLAGS_attempts);
  if (FLAGS_hedge_ms > 0)
    options.policy.hedge = {.delay = std::chrono::milliseconds(FLAGS_hedge_ms), .max_attempts = 2};
  Http2GrpcClient client(FLAGS_server, options);
  if (!FLAGS_ask.empty()) return Ask(client);
  const bool echoed = EchoFromManyFibers(client);
  return ReadGreetings(client) && JoinPayloads(client) && EchoBothWays(client) && echoed;
}

}  // namespace
}  // namespace weft::examples

int main(int argc, char** argv) {
  gflags::SetUsageMessage("a gRPC client over our own HTTP/2 that calls from many fibers at once");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1 || FLAGS_server.empty() || FLAGS_fibers < 1 || FLAGS_calls < 0 || FLAGS_payload < 0 ||
      FLAGS_delay_ms < 0 || FLAGS_deadline_ms < 1 || FLAGS_attempts < 1 || FLAGS_hedge_ms < 0 || FLAGS_messages < 0) {
    std::cerr << "grpc_http2_client: an unknown argument, no --server, or a flag that is negative (--fibers, "
                 "--deadline_ms and --attempts: below 1); see --help\n";
    return EXIT_FAILURE;
  }
  weft::StartRuntime();
  bool ok = false;
  weft::Fiber([&] { ok = weft::examples::CallServers(); }).Join();
  const bool none_left = weft::TerminateRuntime() == 0;
  return ok && none_left ? EXIT_SUCCESS : EXIT_FAILURE;
}
