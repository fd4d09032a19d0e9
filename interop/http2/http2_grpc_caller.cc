// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_caller.h"

#include <algorithm>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2_error.h"
#include "weft/net/retry.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

GrpcStatus Cancelled() { return {GrpcCode::kCancelled, "the calling fiber is cancelled"}; }

bool IsOwnEnd(std::error_code error, Deadline deadline) {
  return error == std::errc::operation_canceled || (error == std::errc::timed_out && deadline.expired());
}

Http2GrpcClientOptions Fitting(Http2GrpcClientOptions options) {
  options.max_message = std::min(options.max_message, GrpcInbox::kMostMessage);
  return options;
}

}  // namespace

std::vector<std::size_t> GrpcTried::IndicesIn(const GrpcBackendSet& set) const {
  std::vector<std::size_t> indices;
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < set.backends.size() && !backends_.empty(); ++i) {
    if (std::find(backends_.begin(), backends_.end(), set.backends[i].get()) != backends_.end()) indices.push_back(i);
  }
  return indices;
}

GrpcAttempt::~GrpcAttempt() {
  if (connection != nullptr) connection->calls.fetch_sub(1, std::memory_order_relaxed);
}

void GrpcAttempt::Report(std::error_code error, bool answered, Deadline deadline) {
  if (!admitted.has_value()) return;
  const io::CircuitBreaker::Admission admission = *std::exchange(admitted, std::nullopt);
  if (!error) {
    backend().breaker().Report(admission, answered);
  } else if (IsOwnEnd(error, deadline)) {
    backend().breaker().ReportUnanswered(admission, asked_at);
  } else if (error.category() != Http2Category() || error == Http2Errc::kStreamReset ||
             error == Http2Errc::kConnectionLost || error == Http2Errc::kProtocolError ||
             error == Http2Errc::kFlooded) {
    if (error != std::errc::message_size) backend().breaker().Report(admission, false);
  }
}

GrpcCaller::GrpcCaller(std::string_view targets, Http2GrpcClientOptions options)
    : options_(Fitting(std::move(options))), budget_(options_.budget), backends_(targets, options_, &tally_) {}

GrpcCaller::~GrpcCaller() {
  const std::size_t calls = calls_.load(std::memory_order_relaxed);
  WEFT_CHECK(calls == 0, "Http2GrpcClient: destroyed while ", calls, " calls are there");
}

Deadline GrpcCaller::DeadlineOf(const GrpcCallOptions& options) const {
  return std::min(options.deadline, CurrentDeadline());
}

// Those that a health check or a breaker leaves out are passed over; those that were tried are taken if there is no
// other one.
bool GrpcCaller::Choose(const GrpcOrder& order, const GrpcTried& tried, GrpcAttempt* attempt) {
  GrpcBackendSet& set = *attempt->set;
  std::vector<std::size_t> passed = tried.IndicesIn(set);
  for (bool is_last = passed.empty();; is_last = true) {
    while (std::optional<io::LoadBalancer::Picked> picked = set.balancer.PickOther(passed, order.key)) {
      GrpcBackend& backend = *set.backends[picked->index()];
      passed.push_back(picked->index());
      if (!backend.is_serving()) continue;
      attempt->admitted = backend.breaker().TryAdmit();
      if (!attempt->admitted.has_value()) continue;
      attempt->picked.emplace(*std::move(picked));
      return true;
    }
    if (is_last) return false;
    passed.clear();
  }
}

GrpcStatus GrpcCaller::Begin(const GrpcOrder& order, GrpcTried* tried, GrpcAttempt* attempt, bool* not_begun) {
  *not_begun = false;
  if (IsCancelRequested() && !order.deadline.expired()) return Cancelled();
  if (order.deadline.expired()) return {GrpcCode::kDeadlineExceeded, "the deadline has passed"};
  std::error_code error = backends_.Await(order.deadline, &attempt->set);
  if (error) {
    GrpcStatus status = GrpcStatusOfCall(error, 0, order.deadline);
    return {status.code, "no server was found: " + status.message};
  }
  if (!Choose(order, *tried, attempt)) {
    return {GrpcCode::kUnavailable, "no server is usable: health checks or failures leave each alone"};
  }
  attempt->asked_at = FiberClock::now();
  GrpcBackend& backend = attempt->backend();
  tried->Add(&backend);
  error = backend.AwaitConnection(order.deadline, &attempt->connection);
  if (!error) {
    attempt->connection->calls.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  attempt->Report(error, false, order.deadline);
  if (IsOwnEnd(error, order.deadline)) return GrpcStatusOfCall(error, 0, order.deadline);
  backends_.LookUpSoon();
  *not_begun = tried->IndicesIn(*attempt->set).size() < attempt->set->backends.size();  // There is another one.
  return {GrpcCode::kUnavailable, "no connection to " + backend.name() + ": " + error.message()};
}

void GrpcCaller::LookUpIfLost(const GrpcAttempt& attempt) {
  if (!attempt.connection->http.IsOpen()) backends_.LookUpSoon();
}

GrpcOutcome GrpcCaller::Exchange(const GrpcOrder& order, std::string_view framed, std::size_t again,
                                 GrpcAttempt* attempt) {
  const Http2RequestHead head = MakeGrpcHead(attempt->Where(order.path), order.deadline, again, order.metadata);
  Http2Answer answer =
      attempt->connection->http.Ask(head, framed, AsLongAs(order.deadline), options_.max_message + GrpcInbox::kHead);
  GrpcOutcome outcome;
  outcome.server = attempt->backend().name();
  if (answer.error) LookUpIfLost(*attempt);
  outcome.not_begun = answer.error == Http2Errc::kNotBegun;
  std::optional<GrpcStatus> of_head;
  if (answer.status != 0 && answer.error != Http2Errc::kHeadersTooLarge) of_head = GrpcStatusOfHead(answer.headers);
  if (of_head.has_value() && !of_head->ok()) {  // Whatever comes after it.
    answer.error.clear();
    outcome.status = *std::move(of_head);
  } else if (answer.error) {
    outcome.status = GrpcStatusOfCall(answer.error, answer.reset_code, order.deadline);
  } else {
    outcome.status = GrpcStatusOfTrailers(GrpcEnd(answer.headers, answer.trailers));
  }
  const bool is_grpc = answer.headers.Has("grpc-status") || answer.trailers.Has("grpc-status");
  attempt->Report(answer.error, is_grpc || outcome.status.code != GrpcCode::kUnavailable, order.deadline);
  outcome.trailers = GrpcEnd(answer.headers, answer.trailers);
  outcome.metadata = std::move(answer.headers);
  outcome.body = std::move(answer.body);
  return outcome;
}

GrpcOutcome GrpcCaller::Once(const GrpcOrder& order, std::string_view framed, std::size_t again, GrpcTried* tried) {
  CountAttempt();
  for (int replays = 0;; ++replays) {
    GrpcOutcome outcome;
    {
      GrpcAttempt attempt;
      outcome.status = Begin(order, tried, &attempt, &outcome.not_begun);
      if (outcome.ok()) {
        outcome = Exchange(order, framed, again, &attempt);
      } else if (attempt.picked.has_value()) {
        outcome.server = attempt.backend().name();
      }
    }
    if (!outcome.not_begun || replays == kMostReplays) return outcome;
    CountReplay();
  }
}

namespace {

// For Hedge(): what may not be made again ends it as a success does.
struct Hedged {
  GrpcOutcome outcome;
  bool is_final = false;
  bool ok() const noexcept { return is_final; }
};

}  // namespace

GrpcOutcome GrpcCaller::Unary(const GrpcOrder& order, std::string_view framed) {
  GrpcTried tried;
  std::atomic<std::size_t> attempts{0};  // relaxed: whoever reads it at the end has awaited them
  const auto once = [&] { return Once(order, framed, attempts.fetch_add(1, std::memory_order_relaxed), &tried); };
  const auto may_again = [&](const GrpcOutcome& outcome) { return order.policy.codes.contains(outcome.status.code); };
  GrpcOutcome last;
  try {
    if (order.policy.hedge.max_attempts > 1) {
      HedgeOptions hedge = order.policy.hedge;
      if (hedge.budget == nullptr) hedge.budget = &budget_;
      last = Hedge(hedge, [&](std::size_t) {
               GrpcOutcome outcome = once();
               const bool is_final = outcome.ok() || !may_again(outcome);
               return Hedged{std::move(outcome), is_final};
             }).outcome;
    } else if (order.policy.retry.max_attempts > 1) {
      RetryPolicy retry = order.policy.retry;
      if (retry.budget == nullptr) retry.budget = &budget_;
      last = Retry(retry, once, [&](const GrpcOutcome& outcome) {
        // A pause need not be longer than the call. The server may forbid another attempt.
        retry.max_backoff = std::min(retry.max_backoff, order.deadline.remaining());
        return may_again(outcome) && !order.deadline.expired() && !ForbidsGrpcRetry(outcome.metadata, outcome.trailers);
      });
    } else {
      last = once();
    }
  } catch (const FiberCancelled&) {
    last.status = order.deadline.expired()
                      ? GrpcStatusOfCall(std::make_error_code(std::errc::timed_out), 0, order.deadline)
                      : Cancelled();
  } catch (const FiberNotStarted& refused) {
    last.status = {GrpcCode::kResourceExhausted, refused.what()};
  }
  last.attempts = attempts.load(std::memory_order_relaxed);
  return last;
}

}  // namespace weft::interop
