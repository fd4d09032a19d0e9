// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// libpq on fibers, in two ways.
//
//   postgres_client --connect="host=127.0.0.1 dbname=postgres user=postgres"
//
//   PQexec() with hooks       blocking code as it is: each of its calls parks the fiber (weft/interop/hook.h)
//   PQsendQuery(), WaitFd()   libpq's own calls that do not block. No hooks, no surprises; a page of code
//
// Twenty fibers, each with a connection, ask for a second of sleep, on two workers.

#include <gflags/gflags.h>
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "weft/interop/hook.h"
#include "weft/io/wait_fd.h"
#include "weft/weft.h"

DEFINE_string(connect, "host=127.0.0.1 dbname=postgres user=postgres", "How libpq connects.");

namespace {

using namespace std::chrono_literals;

constexpr int kFibers = 20;

struct Free {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
};
using Connection = std::unique_ptr<PGconn, Free>;
using Result = std::unique_ptr<PGresult, Free>;

// ---- With hooks ----

bool AskHooked(const char* query) {
  const weft::HookBlockingCalls hooked;
  const Connection connection(PQconnectdb(FLAGS_connect.c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    std::cerr << "postgres_client: " << PQerrorMessage(connection.get());
    return false;
  }
  const Result result(PQexec(connection.get(), query));
  return PQresultStatus(result.get()) == PGRES_TUPLES_OK;
}

// ---- Without ----

bool Ready(const PGconn* connection, short events, weft::Deadline deadline) {
  return !weft::io::WaitFd(PQsocket(connection), events, deadline).error;
}

Connection Connect(weft::Deadline deadline) {
  Connection connection(PQconnectStart(FLAGS_connect.c_str()));
  for (auto next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK; next = PQconnectPoll(connection.get())) {
    // The socket may be another one after each step. close() wakes no fiber, but none waits then.
    if (next == PGRES_POLLING_FAILED) return nullptr;
    if (!Ready(connection.get(), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline)) return nullptr;
  }
  return connection;
}

// The last result of the query.
Result Execute(PGconn* connection, const char* query, weft::Deadline deadline) {
  if (PQsetnonblocking(connection, 1) != 0 || PQsendQuery(connection, query) != 1) return nullptr;
  for (int left; (left = PQflush(connection)) != 0;) {
    if (left < 0 || !Ready(connection, POLLIN | POLLOUT, deadline) || PQconsumeInput(connection) != 1) return nullptr;
  }
  Result last;
  for (;;) {
    while (PQisBusy(connection) != 0) {
      if (!Ready(connection, POLLIN, deadline) || PQconsumeInput(connection) != 1) return nullptr;
    }
    Result result(PQgetResult(connection));
    if (result == nullptr) return last;
    last = std::move(result);
  }
}

bool AskWaiting(const char* query) {
  const weft::Deadline deadline = 30s;
  const Connection connection = Connect(deadline);
  if (connection == nullptr) return false;
  const Result result = Execute(connection.get(), query, deadline);
  return PQresultStatus(result.get()) == PGRES_TUPLES_OK;
}

bool AskInMany(const char* what, bool (*ask)(const char* query)) {
  std::atomic<int> right{0};
  const auto begin = std::chrono::steady_clock::now();
  weft::FiberScope scope;
  for (int i = 0; i < kFibers; ++i) {
    static_cast<void>(scope.Spawn([&right, ask] { right += ask("SELECT pg_sleep(1)"); }));
  }
  scope.Wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << what << ": " << right << " of " << kFibers << " fibers got their answers in " << took.count() << " s\n";
  return right == kFibers;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::Run(argc, argv, [] {
    const bool hooked = AskInMany("PQexec(), hooked", &AskHooked);
    const bool waiting = AskInMany("PQsendQuery(), WaitFd()", &AskWaiting);
    return hooked && waiting ? 0 : 1;
  });
}
