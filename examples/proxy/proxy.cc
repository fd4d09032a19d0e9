// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The middle tier of a search: HTTP in front, protobuf RPC behind.
//
//   proxy --listen=127.0.0.1:8080 --backends=127.0.0.1:8001,127.0.0.1:8002 --deadline_ms=200 --hedge_ms=20
//
//   GET /search?q=fibers   asks both shards at the same time, each at the backend with the fewest calls; another one
//                          stands in for a slow or dead one (hedged_search.h). The hits of both, best first, as JSON.
//   GET /stats             what the proxy and the scheduler have counted, as JSON
//   GET /metrics           what the scheduler has counted, for Prometheus
//
// A search has a scope (weft/sync/cancel_scope.h), which ends after --deadline_ms, or earlier: "Request-Timeout-Ms:
// <milliseconds>" tells how long the client will wait. The backends are told what is left of it. The scope ends, too,
// when the client hangs up (weft/http/server.h), and at the end of --drain_ms; then the calls to the backends are
// cancelled, and these give up their part.
//
// Each request has a fiber, and starts one more, for the other shard, and one for each call to a backend. Prints
// "listening on <address>", and runs until SIGTERM or SIGINT or for --duration seconds; then it answers the requests
// that it has. --admin=127.0.0.1:0 serves the admin pages (serving/admin.h).

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/examples/proxy/hedged_search.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/examples/rpc/scheduler_report.h"
#include "weft/examples/serving/admin.h"
#include "weft/examples/serving/http_metrics.h"
#include "weft/examples/serving/open_listener.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/http/server.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/observe/metrics.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

#include "examples/proxy/search.pb.h"

DEFINE_string(listen, "127.0.0.1:8080", "Where to listen for HTTP: serving/open_listener.h");
DEFINE_string(backends, "127.0.0.1:8001,127.0.0.1:8002", "Addresses of the backends; each has all documents");
DEFINE_int32(connections, 1, "Connections to each backend");
DEFINE_double(deadline_ms, 200, "For a request's answer");
DEFINE_double(hedge_ms, 20, "After so long without an answer another backend is asked too; 0: never");
DEFINE_double(hedge_percent, 10, "Of the requests to backends: so many may be asked again for being slow");
DEFINE_double(hedge_reserve, 100, "And so many at once, beyond the percentage");
DEFINE_int32(breaker_failures, 5, "After so many failures in a row a backend is left alone");
DEFINE_int32(breaker_open_ms, 1000, "For how long at first; then twice as long, up to 30 s");
DEFINE_int32(breaker_silence_ms, 0,
             "Calls without an answer are failures of a backend that has answered none for so long; 0: half of "
             "--deadline_ms");
DEFINE_double(duration, 0, "Seconds to run for; 0: until a signal");
DEFINE_int32(drain_ms, 5000, "How long requests may take at the end");

namespace weft::proxy {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kShards = 2;
constexpr std::chrono::seconds kIdleTime{60};  // that a connection may be open without a request

std::chrono::microseconds Milliseconds(double ms) {
  return std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000));
}

double Microseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

// "a%20b+c" to "a b c"; nothing if an escape is malformed.
std::optional<std::string> Unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned value = 0;
    const char* const from = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(from, from + 2, value, 16).ptr != from + 2) return std::nullopt;
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

// The value of `name` in "a=1&b=2"; nothing if it is missing or has a malformed escape.
std::optional<std::string> Parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    if (item.substr(0, item.find('=')) != name) continue;
    return item.size() == name.size() ? std::string() : Unescape(item.substr(name.size() + 1));
  }
  return std::nullopt;
}

class Proxy {
 public:
  // add_metrics: those of the server.
  Proxy(std::vector<rpc::Channel*> backends, std::function<void(MetricsText*)> add_metrics)
      : search_(std::move(backends), SearchOptions()), add_metrics_(std::move(add_metrics)) {}

  // A handler of http::Server.
  void Serve(http::Request& request, http::Response& response) {
    if (request.path() == "/metrics") return SendMetrics(response);
    const Answer answer = AnswerTo(request);
    const http::Fields fields{{"content-type", "application/json"}};
    // Of an error nobody is left to be told.
    static_cast<void>(response.Send(answer.status, fields, json::serialize(answer.body) + "\n"));
  }

  void Print(std::ostream& out) const {
    const HedgedSearch::Counts hedging = search_.counts();
    out << "searches " << searches_ << ", failed " << failed_ << ", given up " << given_up_ << "; second backend asked "
        << hedging.hedged << " times, first to answer " << hedging.hedges_won << " times, not asked for lack of budget "
        << hedging.not_hedged << " times; failed over " << hedging.failed_over << " times\n";
  }

 private:
  static HedgedSearch::Options SearchOptions() {
    using std::chrono::milliseconds;
    HedgedSearch::Options options;
    if (FLAGS_hedge_ms > 0) options.hedge_delay = Milliseconds(FLAGS_hedge_ms);
    options.hedging = {.share = FLAGS_hedge_percent / 100, .reserve = FLAGS_hedge_reserve};
    options.breaking.failures = FLAGS_breaker_failures;
    options.breaking.open_for = milliseconds(FLAGS_breaker_open_ms);
    options.breaking.open_for_most =
        std::max<std::chrono::nanoseconds>(options.breaking.open_for, std::chrono::seconds(30));
    const double silence_ms = FLAGS_breaker_silence_ms > 0 ? FLAGS_breaker_silence_ms : FLAGS_deadline_ms / 2;
    options.breaking.silence = std::max(Milliseconds(silence_ms), std::chrono::microseconds(1));
    return options;
  }

  struct Answer {
    int status = 0;
    json::object body;
  };
  static Answer Failure(int status, const std::string& text) { return {status, {{"error", text}}}; }

  void SendMetrics(http::Response& response) {
    MetricsText text(MetricsFormat::kPrometheus);
    text.Add(Metrics());
    add_metrics_(&text);
    const std::string_view type = text.content_type();
    static_cast<void>(response.Send(200, {{"content-type", type}}, text.Take()));
  }

  Answer AnswerTo(http::Request& request) {
    if (request.method() != "GET") return Failure(405, "only GET is served");
    if (request.path() == "/search") return SearchInScope(request);
    if (request.path() == "/stats") return {200, Stats()};
    return Failure(404, "there are /search?q=... and /stats");
  }

  Answer SearchInScope(http::Request& request) {
    std::chrono::microseconds time = Milliseconds(FLAGS_deadline_ms);
    if (const std::string_view field = request.headers().Find("request-timeout-ms"); !field.empty()) {
      std::uint32_t ms = 0;
      const char* const end = field.data() + field.size();
      const auto [parsed, error] = std::from_chars(field.data(), end, ms);
      if (error != std::errc() || parsed != end) return Failure(400, "Request-Timeout-Ms: expected a number");
      time = std::min<std::chrono::microseconds>(time, std::chrono::milliseconds(ms));
    }
    Answer answer;
    CancelScope scope(time);
    try {
      if (scope.Run([&] { answer = Search(request.query()); })) return answer;
    } catch (const FiberCancelled&) {  // The client has gone.
      given_up_.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
    given_up_.fetch_add(1, std::memory_order_relaxed);
    return Failure(504, "no answer within the time");
  }

  Answer Search(std::string_view parameters) {
    const auto query = Parameter(parameters, "q");
    if (!query) return Failure(400, "expected /search?q=<what to search for>");
    searches_.fetch_add(1, std::memory_order_relaxed);
    HedgedSearch::Result results[kShards];
    const auto ask = [&](std::uint32_t shard) {
      SearchRequest request;
      request.set_query(*query);
      request.set_shard(shard);
      results[shard] = search_.Ask(request, CurrentDeadline());
    };
    FiberScope other;
    const bool started = other.Spawn([&] { ask(1); });
    ask(0);
    if (!started) ask(1);
    other.Wait();
    std::vector<const SearchAnswer::Hit*> hits;
    for (const HedgedSearch::Result& result : results) {
      if (result.code != rpc::OK) {
        failed_.fetch_add(1, std::memory_order_relaxed);
        const bool late = result.code == rpc::DEADLINE_EXCEEDED;
        return Failure(late ? 504 : 502, result.text);
      }
      for (const SearchAnswer::Hit& hit : result.answer.hits()) hits.push_back(&hit);
    }
    std::sort(hits.begin(), hits.end(), [](const SearchAnswer::Hit* a, const SearchAnswer::Hit* b) {
      return a->score() != b->score() ? a->score() > b->score() : a->id() < b->id();
    });
    json::array list;
    for (const SearchAnswer::Hit* hit : hits) {
      list.push_back(json::object{{"id", hit->id()}, {"score", hit->score()}, {"title", hit->title()}});
    }
    return {200, {{"query", *query}, {"hits", std::move(list)}}};
  }

  static const char* NameOf(io::CircuitBreaker::State state) {
    switch (state) {
      case io::CircuitBreaker::State::kClosed:
        return "closed";
      case io::CircuitBreaker::State::kOpen:
        return "open";
      case io::CircuitBreaker::State::kHalfOpen:
        break;
    }
    return "half open";
  }

  json::object Stats() const {
    const HedgedSearch::Counts hedging = search_.counts();
    json::array groups;
    for (const GroupCounts& group : GetSchedulingCounts()) {
      const WorkerCounts sum = group.Sum();
      std::uint64_t stolen_in = 0;
      for (const StealCounts& steals : group.steals) stolen_in += steals.stolen_in;
      groups.push_back(json::object{{"group", group.group},
                                    {"name", group.name},
                                    {"node", group.node},
                                    {"workers", group.workers.size()},
                                    {"ready", group.ready},
                                    {"fibers_begun", sum.begun},
                                    {"fibers_finished", sum.finished},
                                    {"switches", sum.switches},
                                    {"spins", sum.spins},
                                    {"sleeps", sum.sleeps},
                                    {"wakes", sum.wakes},
                                    {"overflowed", group.overflowed},
                                    {"ready_to_run_p50_us", Microseconds(group.ready_wait.Percentile(0.5))},
                                    {"ready_to_run_p99_us", Microseconds(group.ready_wait.Percentile(0.99))},
                                    {"stolen_in", stolen_in},
                                    {"stolen_out", group.stolen_out_same_node + group.stolen_out_other_node}});
    }
    json::array backends;
    for (const HedgedSearch::ReplicaState& replica : search_.replicas()) {
      backends.push_back(json::object{{"address", replica.server.ToString()},
                                      {"breaker", NameOf(replica.breaker)},
                                      {"refused", replica.refused},
                                      {"under_way", replica.under_way}});
    }
    return {{"searches", searches_.load(std::memory_order_relaxed)},
            {"failed", failed_.load(std::memory_order_relaxed)},
            {"given_up", given_up_.load(std::memory_order_relaxed)},
            {"hedged", hedging.hedged},
            {"hedges_won", hedging.hedges_won},
            {"not_hedged", hedging.not_hedged},
            {"failed_over", hedging.failed_over},
            {"backends", std::move(backends)},
            {"groups", std::move(groups)}};
  }

  HedgedSearch search_;
  const std::function<void(MetricsText*)> add_metrics_;
  std::atomic<std::uint64_t> searches_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> given_up_{0};
};

bool StartAll(const std::vector<std::unique_ptr<rpc::Channel>>& channels, io::TcpServer* server) {
  const auto start = [](const std::unique_ptr<rpc::Channel>& channel) { return channel->Start(); };
  if (std::all_of(channels.begin(), channels.end(), start) && server->Start()) return true;
  std::cerr << "no fibers can be started\n";
  return false;
}

http::Options HttpOptions() {
  http::Options options;
  options.limits.idle_timeout = options.limits.settings_timeout = options.header_timeout = kIdleTime;
  return options;
}

int Run(io::TcpListener listener, const std::vector<io::SocketAddress>& backends) {
  std::vector<std::unique_ptr<rpc::Channel>> channels;
  std::vector<rpc::Channel*> replicas;
  std::optional<Proxy> proxy;
  http::Server http([&proxy](auto& request, auto& response) { proxy->Serve(request, response); }, HttpOptions());
  std::optional<io::TcpServer> server;
  const auto add_metrics = [&](MetricsText* text) { examples::AddCounts(server->counts(), http, text); };
  examples::Admin admin("rpc_proxy", add_metrics);
  if (std::string why; !admin.Listen(&why)) {
    std::cerr << why << "\n";
    return 1;
  }
  const auto start = [&] {
    StartRuntime();
    for (const io::SocketAddress& backend : backends) {
      // Another backend is asked at once, so none is asked again.
      const rpc::Channel::Options options{.connections = static_cast<std::size_t>(FLAGS_connections),
                                          .retry = {.most_attempts = 1}};
      replicas.push_back(channels.emplace_back(std::make_unique<rpc::Channel>(backend, options)).get());
    }
    proxy.emplace(std::move(replicas), add_metrics);
    server.emplace(std::move(listener), http.ForTcpServer());
    if (!StartAll(channels, &*server)) return false;
    std::cout << "listening on " << server->local_address().ToString() << std::endl;
    return admin.Start();
  };
  const Deadline end = FLAGS_duration > 0 ? Deadline(std::chrono::duration<double>(FLAGS_duration)) : Deadline();
  const bool started = io::RunUntilSignal(start, end) >= 0;
  if (started) {
    server->Stop(std::chrono::milliseconds(FLAGS_drain_ms));
    admin.Stop();
    proxy->Print(std::cout);
    rpc::PrintSchedulerReport(std::cout);
  }
  server.reset();
  channels.clear();
  TerminateRuntime();
  return started ? 0 : 1;
}

}  // namespace
}  // namespace weft::proxy

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::vector<weft::io::SocketAddress> backends;
  std::istringstream list(FLAGS_backends);
  for (std::string item; std::getline(list, item, ',');) {
    const auto backend = weft::io::SocketAddress::Parse(item);
    if (!backend) {
      std::cerr << "--backends=" << FLAGS_backends << ": \"" << item << "\" is no address like 127.0.0.1:8001\n";
      return 2;
    }
    backends.push_back(*backend);
  }
  if (backends.empty() || FLAGS_connections < 1 || FLAGS_deadline_ms <= 0 || FLAGS_duration < 0 ||
      FLAGS_breaker_failures < 1 || FLAGS_breaker_open_ms < 1 || FLAGS_breaker_silence_ms < 0 ||
      !(FLAGS_hedge_percent >= 0 && FLAGS_hedge_percent <= 100) ||
      !(FLAGS_hedge_reserve >= 0 && FLAGS_hedge_reserve <= 1e9)) {
    std::cerr << "expected at least one address in --backends, --connections, --deadline_ms, --breaker_failures and"
                 " --breaker_open_ms above zero, --breaker_silence_ms and --hedge_reserve not below it, and"
                 " --hedge_percent from 0 to 100\n";
    return 2;
  }
  weft::io::TcpListener listener;
  std::string why;
  if (const int status = examples::OpenListener(FLAGS_listen, &listener, &why); status != 0) {
    std::cerr << why << "\n";
    return status;
  }
  return weft::proxy::Run(std::move(listener), backends);
}
