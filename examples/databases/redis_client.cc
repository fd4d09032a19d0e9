// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// hiredis, a client that blocks, on fibers: its calls park the fiber (weft/interop/hook.h).
//
//   redis-server --port 6379 &
//   redis_client --port=6379
//
// A hundred fibers share ten connections. hiredis's connections are not for two at a time, so a channel lends them.

#include <gflags/gflags.h>
#include <hiredis/hiredis.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "weft/interop/hook.h"
#include "weft/weft.h"

DEFINE_string(host, "127.0.0.1", "Of the server.");
DEFINE_int32(port, 6379, "Of the server.");

namespace {

constexpr int kFibers = 100;
constexpr int kConnections = 10;

struct Free {
  void operator()(redisContext* connection) const { redisFree(connection); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Connection = std::unique_ptr<redisContext, Free>;
using Reply = std::unique_ptr<redisReply, Free>;

// nullptr: what went wrong is printed.
Connection Connect() {
  const timeval limit{.tv_sec = 5, .tv_usec = 0};
  Connection connection(redisConnectWithTimeout(FLAGS_host.c_str(), FLAGS_port, limit));
  if (connection != nullptr && connection->err == 0) return connection;
  std::cerr << "redis_client: " << (connection != nullptr ? connection->errstr : "no memory") << '\n';
  return nullptr;
}

bool SetAndGet(redisContext* connection, int number) {
  const std::string value = "value " + std::to_string(number);
  const Reply set(static_cast<redisReply*>(redisCommand(connection, "SET weft:%d %s EX 60", number, value.c_str())));
  const Reply got(static_cast<redisReply*>(redisCommand(connection, "GET weft:%d", number)));
  return set != nullptr && got != nullptr && got->type == REDIS_REPLY_STRING && value == got->str;
}

int Ask() {
  weft::FiberChannel<Connection> idle(kConnections);
  {
    const weft::HookBlockingCalls hooked;
    for (int i = 0; i < kConnections; ++i) {
      Connection connection = Connect();
      if (connection == nullptr) return 1;
      static_cast<void>(idle.Put(std::move(connection)));
    }
  }
  std::atomic<int> right{0};
  weft::FiberScope scope;
  for (int i = 0; i < kFibers; ++i) {
    static_cast<void>(scope.Spawn([&idle, &right, i] {
      const weft::HookBlockingCalls hooked;  // From here on hiredis parks this fiber, not its worker.
      auto connection = idle.Get();
      right += SetAndGet(connection->get(), i);
      static_cast<void>(idle.TryPut(std::move(*connection)));  // There is room: no cancellation loses it.
    }));
  }
  scope.Wait();
  std::cout << right << " of " << kFibers << " fibers got their values\n";
  for (const weft::HookedCallCount& count : weft::GetHookedCallCounts()) {
    if (count.calls != 0) std::cout << "  " << count.name << ": " << count.calls << ", " << count.waits << " parked\n";
  }
  return right == kFibers ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::Run(argc, argv, [] { return Ask(); });
}
