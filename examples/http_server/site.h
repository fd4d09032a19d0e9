// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Site: the paths and their answers, for an http::Server (weft/http/server.h).
//
//   GET /plaintext                        Hello, World!
//   GET /json                             {"message":"Hello, World!"}
//   GET /bytes?n=65536                    n bytes, at most 1048576
//   GET /fanout?n=8&deadline_ms=50        asks n services at the same time, and answers with what has come by then
//   GET /stats                            what the scheduler and the server have counted
//   GET /metrics                          the same for Prometheus
//   POST /echo                            the body
//
// A request to /fanout has a scope (weft/sync/cancel_scope.h), and all fibers that it starts are in it. The scope ends
// after "Request-Timeout-Ms: <milliseconds>", a header that tells how long the client will wait: then the answer is a
// 504. It ends, too, when the client hangs up, as that of each handler does.
//
// Any fiber.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_SITE_H_
#define WEFT_EXAMPLES_HTTP_SERVER_SITE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/http/message.h"
#include "weft/http/routes.h"
#include "weft/http/server.h"
#include "weft/net/budgets.h"
#include "weft/observe/metrics.h"

#include "serving/serving.h"

namespace examples {

struct SiteLimits {
  std::uint64_t body_bytes = 1024 * 1024;  // 413
  // For a body to come: 408. For a slow reader: for its answer.
  std::chrono::milliseconds request_timeout{30'000};
};

class Site {
 public:
  // All outlive it. What exceeds the budget, of requests that wait or of bytes of bodies, is answered 503.
  Site(const Serving* serving, weft::io::RequestBudget* budget, const SiteLimits& limits)
      : serving_(serving), budget_(budget), limits_(limits) {}

  // Whose handlers use this object.
  weft::http::Routes MakeRoutes();
  // Before the first request. /stats and /metrics show its counts.
  void SetServer(const weft::http::Server* server) { server_ = server; }
  // What it counts.
  void AddMetrics(weft::MetricsText* text) const;

 private:
  using Request = weft::http::Request;
  using Response = weft::http::Response;

  void Send(Response& response, int status, const weft::http::Fields& fields, std::string_view body);
  void Refuse(Response& response, int status, std::string_view why);
  void AnswerBytes(Request& request, Response& response);
  void AnswerFanOut(Request& request, Response& response);
  void AnswerFanOutInTime(Request& request, Response& response);
  void AnswerEcho(Request& request, Response& response);
  int ReadBody(Request& request, weft::io::RequestBudget::Share* share, std::string* body);
  std::string Stats() const;

  const Serving* const serving_;
  weft::io::RequestBudget* const budget_;
  const SiteLimits limits_;
  const weft::http::Server* server_ = nullptr;
  // relaxed; statistics.
  std::atomic<std::uint64_t> given_up_{0};          // the client had gone, or the time was over
  std::atomic<std::uint64_t> timed_out_writes_{0};  // the client has not taken its answer in time
  std::atomic<std::uint64_t> too_slow_{0};          // bodies: 408
  std::atomic<std::uint64_t> too_large_{0};         // bodies: 413
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_SITE_H_
