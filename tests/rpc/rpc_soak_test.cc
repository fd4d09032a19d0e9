// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Channels of examples/rpc come and go for a while, with calls that are made at the same time, with messages and
// attachments of all sizes, with deadlines, in scopes that are cancelled, cancelled from outside, and whose channel is
// stopped under them; beside servers that are drained and replaced all the time, on sockets that stay.
//
// What must hold
//   - An answer is its request's, and whole.
//   - If the drains are patient, a call is answered, unless its client ends it: a Channel makes those again that the
//     server has not begun, if there is time.
//   - Stop() returns when it should, and then no handler and no fiber of one is left.
//   - No call lasts for ever, and in the end no descriptor is left.
//
// For how long: ../stress/soak.h.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_latch.h"

#include "examples/rpc/echo.pb.h"
#include "stress/soak.h"

namespace weft::rpc {
namespace {

using namespace std::chrono_literals;
using google::protobuf::Closure;
using stress::kLateAtMost;
using stress::kLong;
using stress::Steady;

struct Tally {
  std::atomic<std::uint64_t> channels{0}, answered{0}, bytes{0}, retries{0}, not_begun{0}, timed_out{0}, cancelled{0},
      cancelled_from_outside{0}, stopped{0}, cut{0};
};

// Sleeps, in several fibers, and sends the payload and the attachment back.
class NapAndEcho final : public EchoService {
 public:
  void Echo(google::protobuf::RpcController* base, const EchoRequest* request, EchoAnswer* answer,
            Closure* done) override {
    {
      const stress::Counted counted(&running);
      FiberScope fan_out;
      for (unsigned part = 1; part <= 3; ++part) {
        static_cast<void>(fan_out.Spawn([this, nap = std::chrono::microseconds(request->sleep_us() / part)] {
          const stress::Counted also_counted(&running);
          FiberSleepFor(nap);
        }));
      }
      fan_out.Wait();
      answer->set_payload(request->payload());
      auto* const controller = static_cast<Controller*>(base);
      controller->answer_attachment() = std::move(controller->request_attachment());
    }
    done->Run();
  }

  std::atomic<int> running{0};  // handlers and their fibers
};

// One server and its service.
class Generation {
 public:
  explicit Generation(io::TcpListener listener) {
    server_.AddService(&service_);
    EXPECT_TRUE(server_.Start(std::move(listener)));
  }

  void Stop(std::chrono::milliseconds grace) {
    const auto begin = Steady::now();
    server_.Stop(grace);
    EXPECT_LT(Steady::now() - begin, grace + kLateAtMost);
    const Server::Counts counts = server_.counts();
    EXPECT_EQ(counts.connections, 0U);
    EXPECT_EQ(counts.in_flight, 0U);
    EXPECT_EQ(counts.bad, 0U);
    EXPECT_EQ(counts.vanished, 0U);
    EXPECT_EQ(service_.running, 0) << "fibers of calls have outlived their server's Stop()";
  }

 private:
  NapAndEcho service_;
  Server server_;
};

// One server after the other on one socket, and their clients.
class Place : public stress::Succession<Generation> {
 public:
  explicit Place(bool patient)
      : Succession(patient,
                   [](io::TcpListener listener) { return std::make_unique<Generation>(std::move(listener)); }) {}

  // One channel: some fibers make calls over it, and now and then it is stopped meanwhile.
  void Visit(std::minstd_rand& random) {
    Channel::Options options;
    options.connections = 1 + random() % 2;
    options.connect_timeout = kLong;
    // Servers come and go faster than the defaults are made for.
    options.backoff_least = options.retry.pause_least = 1ms;
    options.backoff_most = 20ms;
    options.retry.most_attempts = 50;
    options.retry.reserve = 10'000;
    Channel channel(address(), options);
    ASSERT_TRUE(channel.Start());
    tally.channels.fetch_add(1);
    std::atomic<bool> stopped{false};
    FiberScope callers;
    for (int i = 1 + static_cast<int>(random() % 6); i > 0; --i) {
      EXPECT_TRUE(callers.Spawn([this, &channel, &stopped, seed = static_cast<unsigned>(random())] {
        std::minstd_rand dice(seed);
        for (int calls = 1 + static_cast<int>(dice() % 8); calls > 0 && !stopped; --calls) {
          Call(channel, dice, stopped);
        }
      }));
    }
    if (random() % 8 == 0) {
      FiberSleepFor(std::chrono::microseconds(random() % 5000));
      stopped = true;
      channel.Stop();
    }
    callers.Wait();
    tally.retries.fetch_add(channel.counts().retries);
  }

  bool HasSeenAll() const {
    return restarts() > 0 && tally.answered > 0 && tally.bytes > 0 && tally.timed_out > 0 && tally.cancelled > 0 &&
           tally.cancelled_from_outside > 0;
  }

  Tally tally;

 private:
  // A call and what it is made of.
  struct OneCall {
    OneCall(std::minstd_rand& dice, std::uint32_t sleep_us) {
      payload.resize(dice() % 8 == 0 ? dice() % 100'000 : dice() % 500);
      for (char& c : payload) c = static_cast<char>(dice());
      if (dice() % 4 == 0)
        attachment.assign(dice() % 4 == 0 ? dice() % 100'000 : dice() % 500, static_cast<char>(dice()));
      request.set_payload(payload);
      request.set_sleep_us(sleep_us);
      if (!attachment.empty()) controller.request_attachment() = NoncontiguousBuffer(attachment);
    }
    void Check() {
      EXPECT_EQ(answer.payload(), payload) << "an echo is not what was sent";
      EXPECT_EQ(controller.answer_attachment().Get().ToString(), attachment);
    }

    std::string payload, attachment;
    Controller controller;
    EchoRequest request;
    EchoAnswer answer;
  };

  // kShort: the client may end the call before it can be made again.
  enum class Patience : std::uint8_t { kShort, kLong };

  void Call(Channel& channel, std::minstd_rand& dice, const std::atomic<bool>& stopped) {
    EchoService::Stub stub(&channel);
    switch (dice() % 8) {
      case 0: {  // Is late, most of the time.
        OneCall call(dice, 1 + dice() % 50'000);
        call.controller.set_timeout(std::chrono::microseconds(1 + dice() % 2000));
        stub.Echo(&call.controller, &call.request, &call.answer, nullptr);
        if (call.controller.error_code() == DEADLINE_EXCEEDED) return static_cast<void>(tally.timed_out.fetch_add(1));
        return Check(call, Patience::kShort, stopped);
      }
      case 1: {
        OneCall call(dice, 1 + dice() % 50'000);
        CancelScope scope;
        FiberScope canceller;
        EXPECT_TRUE(canceller.Spawn([&scope, after = std::chrono::microseconds(dice() % 3000)] {
          FiberSleepFor(after);
          scope.Cancel();
        }));
        const bool came_to_its_end =
            scope.Run([&] { stub.Echo(&call.controller, &call.request, &call.answer, nullptr); });
        canceller.Wait();
        if (!came_to_its_end) return static_cast<void>(tally.cancelled.fetch_add(1));
        return Check(call, Patience::kShort, stopped);
      }
      case 2: {
        OneCall call(dice, 1 + dice() % 50'000);
        FiberLatch ended(1);
        stub.Echo(&call.controller, &call.request, &call.answer, google::protobuf::NewCallback(&CountDown, &ended));
        FiberSleepFor(std::chrono::microseconds(dice() % 3000));
        call.controller.StartCancel();
        ended.Wait();
        if (call.controller.error_code() == CANCELED) {
          return static_cast<void>(tally.cancelled_from_outside.fetch_add(1));
        }
        return Check(call, Patience::kShort, stopped);
      }
      default: {
        OneCall call(dice, static_cast<std::uint32_t>(dice() % 4 == 0 ? dice() % 3000 : 0));
        call.controller.set_timeout(kLong);
        stub.Echo(&call.controller, &call.request, &call.answer, nullptr);
        return Check(call, Patience::kLong, stopped);
      }
    }
  }

  static void CountDown(FiberLatch* latch) { latch->CountDown(); }

  // Of a call that its client has not ended.
  void Check(OneCall& call, Patience patience, const std::atomic<bool>& stopped) {
    const ErrorCode code = call.controller.error_code();
    if (code == OK) {
      call.Check();
      tally.answered.fetch_add(1);
      tally.bytes.fetch_add(call.payload.size() + call.attachment.size());
      return;
    }
    if (stopped && (code == UNAVAILABLE || code == CONNECTION_LOST)) {
      return static_cast<void>(tally.stopped.fetch_add(1));
    }
    if (patience == Patience::kShort && code == UNAVAILABLE && call.controller.not_begun()) {
      return static_cast<void>(tally.not_begun.fetch_add(1));
    }
    const bool may_be = code == UNAVAILABLE || code == CONNECTION_LOST || code == CANCELED;
    if (may_be && !patient()) return static_cast<void>(tally.cut.fetch_add(1));
    ADD_FAILURE() << ErrorCode_Name(code) << ": " << call.controller.ErrorText()
                  << (patient() ? ", beside patient drains" : "");
  }
};

class RpcSoak : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, RpcSoak, ::testing::Values(1, 2, 6));

TEST_P(RpcSoak, ChannelsAndServersComeAndGo) {
  const stress::SoakRuntime runtime(GetParam());
  const auto end = Steady::now() + stress::SoakTime();
  Place patient(true), impatient(false);
  Place* const places[] = {&patient, &impatient};
  constexpr int kClients = 16 / stress::kScale;
  FiberLatch done(std::size(places) * (kClients + 1));
  for (Place* place : places) stress::StartVisitors(place, kClients, end, &done);
  done.Wait();
  for (Place* place : places) {
    place->StopForGood();
    const Tally& counts = place->tally;
    std::cout << place->restarts() << " restarts, " << counts.channels << " channels, " << counts.answered
              << " answered, " << counts.bytes << " bytes, " << counts.retries << " made again, " << counts.not_begun
              << " not begun, " << counts.timed_out << " timed out, " << counts.cancelled << " cancelled, "
              << counts.cancelled_from_outside << " from outside, " << counts.stopped << " stopped, " << counts.cut
              << " cut\n";
    EXPECT_TRUE(place->HasSeenAll());
  }
  EXPECT_LT(Steady::now(), end + stress::kUntilAllIsSeen + kLateAtMost) << "a wake-up was lost";
}

}  // namespace
}  // namespace weft::rpc
