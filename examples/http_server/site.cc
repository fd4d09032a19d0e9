// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/site.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/serializer.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

#include "http_server/fan_out.h"
#include "serving/counts.h"
#include "serving/http_metrics.h"

namespace examples {
namespace {

namespace json = boost::json;

using weft::Deadline;
using weft::http::Fields;
using weft::io::IoResult;
using weft::io::RequestBudget;

Fields FieldsOf(std::string_view type) { return {{"server", "weft"}, {"content-type", type}}; }

const Fields kPlain = FieldsOf("text/plain");
const Fields kJson = FieldsOf("application/json");
const Fields kBytes = FieldsOf("application/octet-stream");

void CountOne(std::atomic<std::uint64_t>& count) { count.fetch_add(1, std::memory_order_relaxed); }

// Made anew for each request, without an allocation.
std::string_view Greeting(char* text, std::size_t size) {
  unsigned char memory[512];
  json::monotonic_resource resource(memory, sizeof(memory));
  json::value greeting(json::object_kind, &resource);
  greeting.get_object().emplace("message", "Hello, World!");
  json::serializer serializer;
  serializer.reset(&greeting);
  const json::string_view read = serializer.read(text, size);
  return {read.data(), read.size()};
}

constexpr std::uint32_t kMostBytes = 1 << 20;
constexpr std::uint32_t kMostServices = 256;
constexpr std::uint32_t kLongestDeadlineMs = 10000;

// Of text that is a number; nothing otherwise.
template <class Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The number after `name=`. Nothing: it is no number or above `most`.
std::optional<std::uint32_t> Parameter(std::string_view query, std::string_view name, std::uint32_t otherwise,
                                       std::uint32_t most) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.size() <= name.size() || !pair.starts_with(name) || pair[name.size()] != '=') continue;
    const auto value = NumberIn<std::uint32_t>(pair.substr(name.size() + 1));
    return value && *value <= most ? value : std::nullopt;
  }
  return otherwise;
}

json::object Describe(const weft::WorkerCounts& counts) {
  return {{"begun", counts.begun},
          {"finished", counts.finished},
          {"switches", counts.switches},
          {"spins", counts.spins},
          {"sleeps", counts.sleeps},
          {"wakes", counts.wakes},
          {"idle_searches", counts.idle_searches}};
}

json::object Describe(const weft::GroupCounts& counts) {
  json::array workers;
  for (const auto& worker : counts.workers) workers.emplace_back(Describe(worker));
  json::array steals;
  for (const auto& steal : counts.steals) {
    steals.emplace_back(json::object{{"group", steal.group},
                                     {"distance", steal.distance},
                                     {"attempts", steal.attempts},
                                     {"stolen_in", steal.stolen_in}});
  }
  return {{"group", counts.group},
          {"name", counts.name},
          {"node", counts.node},
          {"ready", counts.ready},
          {"overflowed", counts.overflowed},
          {"stolen_out_same_node", counts.stolen_out_same_node},
          {"stolen_out_other_node", counts.stolen_out_other_node},
          {"workers", std::move(workers)},
          {"steals", std::move(steals)}};
}

}  // namespace

weft::http::Routes Site::MakeRoutes() {
  weft::http::Routes routes;
  routes.Add("GET", "/plaintext",
             [this](Request&, Response& response) { Send(response, 200, kPlain, "Hello, World!"); });
  routes.Add("GET", "/json", [this](Request&, Response& response) {
    char text[64];
    Send(response, 200, kJson, Greeting(text, sizeof(text)));
  });
  routes.Add("GET", "/bytes", [this](Request& request, Response& response) { AnswerBytes(request, response); });
  routes.Add("GET", "/fanout", [this](Request& request, Response& response) { AnswerFanOut(request, response); });
  routes.Add("GET", "/stats", [this](Request&, Response& response) { Send(response, 200, kJson, Stats()); });
  routes.Add("GET", "/metrics", [this](Request&, Response& response) {
    weft::MetricsText text(weft::MetricsFormat::kPrometheus);
    text.Add(weft::Metrics());
    AddMetrics(&text);
    const Fields fields = FieldsOf(text.content_type());
    Send(response, 200, fields, text.Take());
  });
  routes.Add("POST", "/echo", [this](Request& request, Response& response) { AnswerEcho(request, response); });
  return routes;
}

void Site::Send(Response& response, int status, const Fields& fields, std::string_view body) {
  // Of other errors nobody is left to be told.
  if (response.Send(status, fields, body, limits_.request_timeout) == std::errc::timed_out) {
    CountOne(timed_out_writes_);
  }
}

void Site::Refuse(Response& response, int status, std::string_view why) {
  Send(response, status, kJson, json::serialize(json::object{{"error", why}}));
}

void Site::AnswerBytes(Request& request, Response& response) {
  const std::optional<std::uint32_t> n = Parameter(request.query(), "n", 65536, kMostBytes);
  if (!n) return Refuse(response, 400, "n: expected a number from 0 to 1048576");
  static const std::string most(kMostBytes, 'x');
  Send(response, 200, kBytes, std::string_view(most).substr(0, *n));
}

void Site::AnswerFanOut(Request& request, Response& response) {
  // Answers to the requests before it do not wait for it.
  if (response.Flush(limits_.request_timeout)) return;
  RequestBudget::Share share(budget_);
  if (!share.Begin()) return Refuse(response, 503, "as many requests as there may be are in work");
  Deadline deadline;
  if (request.headers().Has("request-timeout-ms")) {
    const auto ms = NumberIn<std::uint32_t>(request.headers().Find("request-timeout-ms"));
    if (!ms) return Refuse(response, 400, "Request-Timeout-Ms: expected a number");
    deadline = std::chrono::milliseconds(*ms);
  }
  weft::CancelScope scope(deadline);
  try {
    if (scope.Run([&] { AnswerFanOutInTime(request, response); })) return;
  } catch (const weft::FiberCancelled&) {  // The client has gone.
    CountOne(given_up_);
    throw;
  }
  CountOne(given_up_);
  Refuse(response, 504, "the time for this request is over");
}

void Site::AnswerFanOutInTime(Request& request, Response& response) {
  const std::optional<std::uint32_t> n = Parameter(request.query(), "n", 8, kMostServices);
  const std::optional<std::uint32_t> deadline_ms = Parameter(request.query(), "deadline_ms", 50, kLongestDeadlineMs);
  if (!n) return Refuse(response, 400, "n: expected a number from 0 to 256");
  if (!deadline_ms) return Refuse(response, 400, "deadline_ms: expected a number from 0 to 10000");

  const auto begin = std::chrono::steady_clock::now();
  const FanOutResult result = AskServices(*n, std::chrono::milliseconds(*deadline_ms));
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);

  json::object answers;
  json::array late;
  for (std::uint32_t service = 0; service < *n; ++service) {
    if (result.answers[service]) {
      answers.emplace(std::to_string(service), *result.answers[service]);
    } else {
      late.emplace_back(service);
    }
  }
  json::object body;
  body.emplace("asked", *n);
  body.emplace("got", std::move(answers));
  body.emplace("late", std::move(late));
  body.emplace("took_us", took.count());
  Send(response, 200, kJson, json::serialize(body));
}

void Site::AnswerEcho(Request& request, Response& response) {
  RequestBudget::Share share(budget_);
  std::string body;
  switch (ReadBody(request, &share, &body)) {
    case 200:
      return Send(response, 200, kBytes, body);
    case 413:
      CountOne(too_large_);
      return Refuse(response, 413, "the body is too large");
    case 503:
      return Refuse(response, 503, "the memory for bodies is in use");
    default:
      return;  // The server says what was wrong with it.
  }
}

// A status. 0: it has not come to its end.
int Site::ReadBody(Request& request, RequestBudget::Share* share, std::string* body) {
  const auto length = NumberIn<std::uint64_t>(request.headers().Find("content-length"));
  if (length && *length > limits_.body_bytes) return 413;  // Before it is asked for.
  const Deadline until = limits_.request_timeout;
  for (;;) {
    char piece[16 * 1024];
    const IoResult got = request.Read(piece, sizeof(piece), until);
    if (got.error == std::errc::timed_out) CountOne(too_slow_);
    if (!got.ok()) return 0;
    if (got.bytes == 0) return 200;
    if (body->size() + got.bytes > limits_.body_bytes) return 413;
    if (!share->Take(got.bytes)) return 503;
    body->append(piece, got.bytes);
  }
}

std::string Site::Stats() const {
  json::object connections;
  for (const auto& [name, count] : Named(serving_->counts())) connections.emplace(name, count);
  json::array groups;
  for (const auto& group : weft::GetSchedulingCounts()) groups.emplace_back(Describe(group));
  const weft::http::Server::Counts http = server_->counts();
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  json::object body;
  body.emplace("connections", std::move(connections));
  body.emplace("requests", http.requests + http.http2.requests);
  const RequestBudget::Counts budget = budget_->counts();
  body.emplace("waiting", budget.requests);
  body.emplace("body_bytes", budget.bytes);
  body.emplace("over_waiting_requests", budget.over_requests);
  body.emplace("over_body_memory", budget.over_bytes);
  body.emplace("given_up", read(given_up_));
  body.emplace("timed_out_writes", read(timed_out_writes_));
  body.emplace("refused_requests", json::object{{"408", http.header_timeouts + read(too_slow_)},
                                                {"413", read(too_large_)},
                                                {"414_431", http.too_large}});
  body.emplace("fibers", weft::GetFiberCount());
  body.emplace("fibers_ready", weft::GetFiberQueueSize());
  body.emplace("groups", std::move(groups));
  return json::serialize(body);
}

void Site::AddMetrics(weft::MetricsText* text) const {
  AddCounts(serving_->counts(), *server_, text);
  const auto count = [text](std::string_view name, std::string_view help, std::uint64_t value) {
    text->Counter(name, help, {{{}, static_cast<double>(value)}});
  };
  const RequestBudget::Counts budget = budget_->counts();
  count("http_server_given_up", "Requests whose client had gone, or whose time was over.",
        given_up_.load(std::memory_order_relaxed));
  count("http_server_over_budget", "Requests that were answered 503.", budget.over_requests + budget.over_bytes);
}

}  // namespace examples
