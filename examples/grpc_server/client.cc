// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A gRPC client that calls from many fibers at once, and says how many calls it made in a second.
//
//   grpc_client --server=127.0.0.1:50051 --fibers=100 --calls=20000
//   grpc_client                                    without a server: serves itself
//
// First each fiber calls Echo in a loop, then one stream is read.  Every answer is compared with the question.

#include <gflags/gflags.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/grpc_client.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"

#include "greeter_service.h"

DEFINE_string(server, "", "Whom to call: host:port or unix:/path; empty: a server in this process");
DEFINE_int32(fibers, 100, "Fibers that call at the same time");
DEFINE_int32(calls, 20000, "Echo calls in all");
DEFINE_int32(payload, 32, "Bytes in each call");
DEFINE_int32(delay_ms, 0, "How long the server's handler takes for each");
DEFINE_int32(deadline_ms, 10000, "Milliseconds after which a call is given up");
DEFINE_int32(greetings, 5, "Length of the stream");

namespace {

using Steady = std::chrono::steady_clock;
using weft::examples::EchoReply;
using weft::examples::EchoRequest;
using weft::examples::Greeter;
using weft::examples::GreetReply;
using weft::examples::GreetRequest;

// The results of all fibers together.
struct Tally {
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
  weft::FiberMutex mutex;
  std::string first_error;
  std::vector<Steady::duration> took;  // Of right answers.

  void Fail(const std::string& what) {
    ++wrong;
    const std::scoped_lock lock(mutex);
    if (first_error.empty()) first_error = what;
  }
};

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(FLAGS_deadline_ms));
}

// One fiber: calls until --calls are made.
void CallInALoop(Greeter::Stub& stub, Tally* tally) {
  std::vector<Steady::duration> took;
  EchoRequest request;
  request.set_delay_ms(static_cast<std::uint32_t>(FLAGS_delay_ms));
  EchoReply reply;
  for (int call = tally->next++; call < FLAGS_calls; call = tally->next++) {
    std::string payload = std::to_string(call);
    payload.resize(static_cast<std::size_t>(FLAGS_payload), '.');
    request.set_payload(payload);
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto begin = Steady::now();
    const grpc::Status status = weft::interop::CallUnary(stub, &Greeter::Stub::async::Echo, &context, request, &reply);
    const auto duration = Steady::now() - begin;
    if (!status.ok()) {
      tally->Fail(status.error_message());
    } else if (reply.payload() != payload) {
      tally->Fail("the echo is not what was sent");
    } else {
      took.push_back(duration);
    }
  }
  const std::scoped_lock lock(tally->mutex);
  tally->took.insert(tally->took.end(), took.begin(), took.end());
}

bool EchoFromManyFibers(Greeter::Stub& stub) {
  Tally tally;
  weft::FiberLatch all_done(FLAGS_fibers);
  const auto begin = Steady::now();
  for (int i = 0; i < FLAGS_fibers; ++i) {
    const bool started = weft::StartFiberDetached([&] {
      CallInALoop(stub, &tally);
      all_done.CountDown();
    });
    if (!started) {
      tally.Fail("a fiber could not be started");
      all_done.CountDown();
    }
  }
  all_done.Wait();
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
  if (!tally.took.empty())
    std::cout << "; half of them within " << percentile(50) << " us, 99 % within " << percentile(99) << " us";
  std::cout << "\n";
  if (tally.wrong != 0) std::cerr << tally.wrong << " calls failed, the first one: " << tally.first_error << "\n";
  return tally.wrong == 0;
}

bool ReadStream(Greeter::Stub& stub) {
  grpc::ClientContext context;
  SetDeadline(&context);
  GreetRequest request;
  request.set_name("fibers");
  request.set_times(static_cast<std::uint32_t>(FLAGS_greetings));
  weft::interop::FiberClientReader<GreetReply> reader(stub, &Greeter::Stub::async::Greet, &context, request);
  GreetReply reply;
  int count = 0;
  while (reader.Read(&reply)) {
    ++count;
    std::cout << reply.greeting() << "\n";
  }
  const grpc::Status status = reader.Finish();
  if (!status.ok()) std::cerr << "the stream ended with: " << status.error_message() << "\n";
  return status.ok() && count == FLAGS_greetings;
}

bool CallServer(const std::string& address) {
  const auto stub = Greeter::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  bool ok = false;
  weft::Fiber([&] {
    const bool echoed = EchoFromManyFibers(*stub);
    ok = ReadStream(*stub) && echoed;
  }).Join();
  return ok;
}

bool ServeAndCall() {
  weft::examples::GreeterService service;
  std::string address;
  const std::unique_ptr<grpc::Server> server = weft::examples::StartServer("127.0.0.1:0", &service, &address);
  if (server == nullptr) {
    std::cerr << "grpc_client: there is no free port to serve at\n";
    return false;
  }
  const bool ok = CallServer(address);
  weft::interop::ShutdownServer(*server, std::chrono::seconds(5));
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("a gRPC client that calls from many fibers at once");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1 || FLAGS_fibers < 1 || FLAGS_calls < 0 || FLAGS_payload < 0 || FLAGS_delay_ms < 0 ||
      FLAGS_deadline_ms < 1 || FLAGS_greetings < 0) {
    std::cerr << "grpc_client: an unknown argument, or a flag that is negative (--fibers and --deadline_ms: below 1); "
                 "see --help\n";
    return EXIT_FAILURE;
  }
  weft::StartRuntime();
  const bool ok = FLAGS_server.empty() ? ServeAndCall() : CallServer(FLAGS_server);
  const bool none_left = weft::TerminateRuntime() == 0;
  return ok && none_left ? EXIT_SUCCESS : EXIT_FAILURE;
}
