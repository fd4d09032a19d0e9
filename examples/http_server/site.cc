// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/site.h"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serializer.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"

#include "http_server/fan_out.h"
#include "serving/counts.h"

namespace examples {
namespace {

namespace json = boost::json;

using weft::NoncontiguousBuffer;

// Its last block is kept for the next body.
void Empty(NoncontiguousBuffer* body) { body->Skip(body->ByteSize()); }

// Instead of json::serialize(): into memory that is there.
void Serialize(const json::value& value, NoncontiguousBuffer* text) {
  json::serializer serializer;
  serializer.reset(&value);
  Empty(text);
  while (!serializer.done()) {
    char part[512];
    const json::string_view read = serializer.read(part);
    text->AppendCopy(read.data(), read.size());
  }
}

void AnswerJson(const json::value& value, Response* response) {
  response->content_type = "application/json";
  Serialize(value, &response->body);
}

void AnswerGreeting(Response* response) {
  unsigned char memory[512];  // The value is made here: no allocation.
  json::monotonic_resource resource(memory, sizeof(memory));
  json::value greeting(json::object_kind, &resource);
  greeting.get_object().emplace("message", "Hello, World!");
  AnswerJson(greeting, response);
}

// The number after `name=`. Nothing: it is no number or above `most`.
std::optional<std::uint32_t> Parameter(std::string_view query, std::string_view name, std::uint32_t otherwise,
                                       std::uint32_t most) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.size() <= name.size() || !pair.starts_with(name) || pair[name.size()] != '=') continue;
    const std::string_view text = pair.substr(name.size() + 1);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
    return value;
  }
  return otherwise;
}

constexpr std::uint32_t kMostBytes = 1 << 20;
constexpr std::uint32_t kMostServices = 256;
constexpr std::uint32_t kLongestDeadlineMs = 10000;

void AnswerBytes(std::string_view query, Response* response) {
  const std::optional<std::uint32_t> n = Parameter(query, "n", 65536, kMostBytes);
  if (!n) return Site::Refuse(400, "n: expected a number from 0 to 1048576", response);
  response->content_type = "application/octet-stream";
  static const NoncontiguousBuffer most(std::string(kMostBytes, 'x'));
  response->body = most.Slice(0, *n);
}

void AnswerFanOut(std::string_view query, Response* response) {
  const std::optional<std::uint32_t> n = Parameter(query, "n", 8, kMostServices);
  const std::optional<std::uint32_t> deadline_ms = Parameter(query, "deadline_ms", 50, kLongestDeadlineMs);
  if (!n) return Site::Refuse(400, "n: expected a number from 0 to 256", response);
  if (!deadline_ms) return Site::Refuse(400, "deadline_ms: expected a number from 0 to 10000", response);

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
  AnswerJson(std::move(body), response);
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

struct Route {
  std::string_view path;
  bool post;  // else GET and HEAD
  bool may_wait;
  enum { kPlaintext, kJson, kBytes, kFanOut, kStats, kEcho } what;
};

constexpr Route kRoutes[] = {{"/plaintext", false, false, Route::kPlaintext}, {"/json", false, false, Route::kJson},
                             {"/bytes", false, false, Route::kBytes},         {"/fanout", false, true, Route::kFanOut},
                             {"/stats", false, true, Route::kStats},          {"/echo", true, false, Route::kEcho}};

const Route* RouteOf(const Request& request) {
  const std::string_view path = request.path();
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

bool IsAllowed(const Route& route, Request::Method method) {
  if (route.post) return method == Request::Method::kPost;
  return method == Request::Method::kGet || method == Request::Method::kHead;
}

}  // namespace

bool Site::MayWait(const Request& request) {
  const Route* route = RouteOf(request);
  return route != nullptr && route->may_wait;
}

bool Site::IsInBudget(const Request& request) {
  const Route* route = RouteOf(request);
  return route != nullptr && route->what == Route::kFanOut;
}

void Site::Refuse(int status, std::string_view why, Response* response) {
  response->status = status;
  AnswerJson({{"error", why}}, response);
}

void Site::Answer(const Request& request, Response* response) const {
  response->status = 200;
  response->allow = {};
  if (request.method == Request::Method::kUnknown) return Refuse(501, "there is no such method", response);
  const Route* const route = RouteOf(request);
  if (route == nullptr) return Refuse(404, "there is nothing at this path", response);
  if (!IsAllowed(*route, request.method)) {
    response->allow = route->post ? "POST" : "GET, HEAD";
    return Refuse(405, "this path does not have this method", response);
  }
  switch (route->what) {
    case Route::kPlaintext:
      response->content_type = "text/plain";
      Empty(&response->body);
      response->body.AppendCopy("Hello, World!");
      return;
    case Route::kJson:
      return AnswerGreeting(response);
    case Route::kBytes:
      return AnswerBytes(request.query(), response);
    case Route::kFanOut:
      return AnswerFanOut(request.query(), response);
    case Route::kStats:
      return AnswerStats(response);
    case Route::kEcho:
      response->content_type = "application/octet-stream";
      response->body = request.body;
      return;
  }
}

void Site::CountRefused(int status) {
  for (std::size_t i = 0; i < std::size(kCountedStatus); ++i) {
    if (kCountedStatus[i] == status) refused_[i].fetch_add(1, std::memory_order_relaxed);
  }
}

void Site::AnswerStats(Response* response) const {
  json::object connections;
  for (const auto& [name, count] : Named(serving_->counts())) connections.emplace(name, count);
  json::array groups;
  for (const auto& group : weft::GetSchedulingCounts()) groups.emplace_back(Describe(group));
  json::object body;
  body.emplace("connections", std::move(connections));
  body.emplace("requests", requests_.Sum());
  const weft::io::RequestBudget::Counts budget = budget_->counts();
  body.emplace("waiting", budget.requests);
  body.emplace("body_bytes", budget.bytes);
  body.emplace("over_waiting_requests", budget.over_requests);
  body.emplace("over_body_memory", budget.over_bytes);
  body.emplace("given_up", given_up_.load(std::memory_order_relaxed));
  body.emplace("timed_out_writes", timed_out_writes_.load(std::memory_order_relaxed));
  json::object refused;
  for (std::size_t i = 0; i < std::size(kCountedStatus); ++i) {
    refused.emplace(std::to_string(kCountedStatus[i]), refused_[i].load(std::memory_order_relaxed));
  }
  body.emplace("refused_requests", std::move(refused));
  body.emplace("fibers", weft::GetFiberCount());
  body.emplace("fibers_ready", weft::GetFiberQueueSize());
  body.emplace("groups", std::move(groups));
  AnswerJson(std::move(body), response);
}

}  // namespace examples
