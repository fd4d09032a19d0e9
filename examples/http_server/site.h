// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Site: the paths and their answers.
//
//   GET /plaintext                        Hello, World!
//   GET /json                             {"message":"Hello, World!"}
//   GET /bytes?n=65536                    n bytes, at most 1048576
//   GET /fanout?n=8&deadline_ms=50        asks n services at the same time, and answers with what has come by then
//   GET /stats                            what the scheduler and the server have counted
//   POST /echo                            the body
//
// HEAD goes where GET does. Another path is a 404, another method a 405, one that nobody knows a 501; all are JSON.
// Any fiber; Answer() may wait, and be cancelled there, where MayWait() says so.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_SITE_H_
#define WEFT_EXAMPLES_HTTP_SERVER_SITE_H_

#include <atomic>
#include <cstdint>
#include <iterator>

#include "weft/net/budgets.h"

#include "http_server/message.h"
#include "serving/serving.h"
#include "serving/sharded.h"

namespace examples {

class Site {
 public:
  Site(const Serving* serving, const weft::io::RequestBudget* budget) : serving_(serving), budget_(budget) {}

  // Whether ready answers should be sent first.
  static bool MayWait(const Request& request);
  // Whether it counts as a request that waits. /stats does not: it tells what the server refuses.
  static bool IsInBudget(const Request& request);
  // Sets all of `response`, which holds another's values.
  void Answer(const Request& request, Response* response) const;
  // With {"error":why} as body.
  static void Refuse(int status, std::string_view why, Response* response);

  // A request whose client has gone, or whose time was over.
  void CountGivenUp() { given_up_.fetch_add(1, std::memory_order_relaxed); }
  // A request that was refused with this status while it was read.
  void CountRefused(int status);
  // A client that has not taken its answers in time.
  void CountTimedOutWrite() { timed_out_writes_.fetch_add(1, std::memory_order_relaxed); }
  void CountRequests(std::uint64_t requests) { requests_.Add(requests); }

 private:
  void AnswerStats(Response* response) const;

  const Serving* const serving_;
  const weft::io::RequestBudget* const budget_;
  ShardedCounter requests_;
  // relaxed; statistics.
  std::atomic<std::uint64_t> given_up_{0};
  std::atomic<std::uint64_t> timed_out_writes_{0};
  // By the limits that clients meet (http_connection.h): time, body, line, fields.
  static constexpr int kCountedStatus[] = {408, 413, 414, 431};
  std::atomic<std::uint64_t> refused_[std::size(kCountedStatus)]{};  // with the status at the same index
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_SITE_H_
