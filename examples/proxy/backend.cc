// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A backend of the proxy: an index in which every query finds something.
//
//   backend --listen=127.0.0.1:8001 --delays_us=200:95,1000:4,20000:1
//
// Prints "listening on <address>", and runs until SIGTERM or SIGINT or for --duration seconds. The answer follows from
// the query alone, so that a client can check it: with hash = 0, then (hash * 31 + byte) % 1000003 for each byte of the
// query, the hits k = 0 ... 4 of shard s have the id (hash + 7919 * (5 * s + k + 1)) % 1000003, the score id % 1000 and
// the title "document <id>".

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/examples/rpc/scheduler_report.h"
#include "weft/examples/serving/open_listener.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/tcp_listener.h"
#include "weft/sync/fiber_cancelled.h"

#include "examples/proxy/search.pb.h"

DEFINE_string(listen, "127.0.0.1:8001", "Where to listen: serving/open_listener.h");
DEFINE_string(delays_us, "0:1", "How long requests take: <microseconds>:<share>,..., as 200:95,20000:5");
DEFINE_uint64(max_in_flight, 0, "Requests in work at once; more are answered \"overloaded\". 0: no limit");
DEFINE_uint64(max_in_flight_per_connection, 0, "The same for each connection. 0: no limit");
DEFINE_uint64(max_request_mb, 0, "Memory of the requests in work, in MiB: as max_in_flight. 0: no limit");
DEFINE_double(duration, 0, "Seconds to run for; 0: until a signal");
DEFINE_int32(drain_ms, 5000, "How long what is in flight may take at the end");

namespace {

// Times with shares.
class Delays {
 public:
  static std::optional<Delays> Parse(std::string_view text) {
    Delays delays;
    while (!text.empty()) {
      std::uint64_t us = 0;
      std::uint64_t share = 0;
      const std::string_view item = text.substr(0, text.find(','));
      const std::size_t colon = item.find(':');
      if (colon == std::string_view::npos || !ParseNumber(item.substr(0, colon), &us) ||
          !ParseNumber(item.substr(colon + 1), &share) || share == 0) {
        return std::nullopt;
      }
      delays.sum_ += share;
      delays.items_.emplace_back(delays.sum_, std::chrono::microseconds(us));
      text.remove_prefix(std::min(text.size(), item.size() + 1));
    }
    if (delays.items_.empty()) return std::nullopt;
    return delays;
  }

  // The nth one: scattered, but the same in each run.
  std::chrono::microseconds At(std::uint64_t n) const {
    n += 0x9e3779b97f4a7c15;  // splitmix64 (Steele, Lea, Flood 2014): consecutive numbers to well mixed ones.
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    const std::uint64_t at = (n ^ n >> 31) % sum_;
    return std::upper_bound(items_.begin(), items_.end(), at,
                            [](std::uint64_t a, const auto& item) { return a < item.first; })
        ->second;
  }

 private:
  static bool ParseNumber(std::string_view text, std::uint64_t* number) {
    constexpr std::uint64_t kMost = 1'000'000'000;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && end == text.data() + text.size() && *number <= kMost;
  }

  std::vector<std::pair<std::uint64_t, std::chrono::microseconds>> items_;  // by the end of their shares
  std::uint64_t sum_ = 0;
};

// A search that nobody waits for any more ends in its sleep: the server runs it in a scope (rpc_server.h).
class Index final : public weft::proxy::SearchService {
 public:
  explicit Index(Delays delays) : delays_(std::move(delays)) {}

  void Search(google::protobuf::RpcController*, const weft::proxy::SearchRequest* request,
              weft::proxy::SearchAnswer* answer, google::protobuf::Closure* done) override {
    const std::chrono::microseconds delay = delays_.At(asked_.fetch_add(1, std::memory_order_relaxed));
    try {
      if (delay.count() != 0) weft::FiberSleepFor(delay);
    } catch (const weft::FiberCancelled&) {
      given_up_.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
    constexpr std::uint64_t kPrime = 1'000'003;
    constexpr std::uint64_t kHits = 5;
    std::uint64_t hash = 0;
    for (const char byte : request->query()) hash = (hash * 31 + static_cast<unsigned char>(byte)) % kPrime;
    for (std::uint64_t k = 0; k < kHits; ++k) {
      const auto id = static_cast<std::uint32_t>((hash + 7919 * (kHits * request->shard() + k + 1)) % kPrime);
      auto* const hit = answer->add_hits();
      hit->set_id(id);
      hit->set_score(id % 1000);
      hit->set_title("document " + std::to_string(id));
    }
    done->Run();
  }
  std::uint64_t given_up() const { return given_up_.load(std::memory_order_relaxed); }

 private:
  const Delays delays_;
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> given_up_{0};
};

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  auto delays = Delays::Parse(FLAGS_delays_us);
  if (!delays) {
    std::cerr << "--delays_us=" << FLAGS_delays_us << ": expected <microseconds>:<share>,..., as 200:95,20000:5\n";
    return 2;
  }
  weft::io::TcpListener listener;
  std::string why;
  if (const int failed = examples::OpenListener(FLAGS_listen, &listener, &why); failed != 0) {
    std::cerr << why << "\n";
    return failed;
  }
  Index index(std::move(*delays));
  std::optional<weft::rpc::Server> server;
  const auto start = [&] {
    weft::StartRuntime();
    server.emplace(weft::rpc::Server::Options{.max_in_flight = FLAGS_max_in_flight,
                                              .max_in_flight_per_connection = FLAGS_max_in_flight_per_connection,
                                              .max_request_memory = FLAGS_max_request_mb << 20});
    server->AddService(&index);
    if (!server->Start(std::move(listener))) return false;
    std::cout << "listening on " << server->local_address().ToString() << std::endl;
    return true;
  };
  const auto end =
      FLAGS_duration > 0 ? weft::Deadline(std::chrono::duration<double>(FLAGS_duration)) : weft::Deadline();
  const bool started = weft::io::RunUntilSignal(start, end) >= 0;
  if (started) {
    server->Stop(std::chrono::milliseconds(FLAGS_drain_ms));
    const weft::rpc::Server::Counts counts = server->counts();
    std::cout << "requests " << counts.requests << ", overloaded " << counts.overloaded << ", late " << counts.late
              << ", bad " << counts.bad << "; given up " << index.given_up() << "\n";
    weft::rpc::PrintSchedulerReport(std::cout);
  } else {
    std::cerr << "no fibers can be started\n";
  }
  server.reset();
  weft::TerminateRuntime();
  return started ? 0 : 1;
}
