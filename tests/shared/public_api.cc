// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program of a shared libweft.so that uses a little of everything that weft.h offers.

#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "weft/fiber/async.h"
#include "weft/fiber/future.h"
#include "weft/fiber/select_tasks.h"
#include "weft/fiber/slice_limits.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/io/file.h"
#include "weft/io/run.h"
#include "weft/io/select_sockets.h"
#include "weft/net/resolver.h"
#include "weft/net/retry.h"
#include "weft/observe/dump_fibers.h"
#include "weft/observe/dump_on_signal.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;

int failures = 0;

void Expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

void UsePrimitives() {
  weft::FiberMutex mutex;
  weft::FiberConditionVariable changed;
  bool done = false;
  weft::Fiber other([&] {
    const std::scoped_lock lock(mutex);
    done = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  other.Join();
  weft::FiberTimedMutex timed;
  if (timed.try_lock_for(1ms)) {
    timed.unlock();
  } else {
    Expect(false, "FiberTimedMutex");
  }
  weft::FiberSharedMutex shared;
  shared.lock_shared();
  shared.unlock_shared();
  weft::FiberSeqLock seqlock;
  seqlock.WriteSeqLock();
  seqlock.WriteSeqUnlock();
  Expect(seqlock.ReadSeqRetry(seqlock.ReadSeqBegin()) == 0, "FiberSeqLock");
  weft::FiberEvent event;
  const weft::Deadline deadline = 5s;
  event.Set();
  Expect(event.Wait(deadline), "FiberEvent");
  weft::FiberSemaphore semaphore(1);
  semaphore.Acquire();
  semaphore.Release();
  weft::FiberBarrier barrier(1);
  barrier.ArriveAndWait();
  weft::FiberBlockingBoundedQueue<std::unique_ptr<int>> queue(4);
  weft::FiberChannel<std::string> channel(1);
  Expect(channel.Put("item") == weft::ChannelResult::kOk && channel.Get() == "item", "FiberChannel");
}

void UseLocalsAndTimers() {
  static weft::FiberLocal<int> local;
  *local = 5;
  static weft::FiberExecutionLocal<int> execution_local;
  const auto context = weft::FiberExecutionContext::Create();
  context->Execute([&] { *execution_local = 6; });
  weft::FiberLatch fired(2);
  const auto soon = std::chrono::steady_clock::now() + 1ms;
  weft::SetFiberTimer(1ms, [&] { fired.CountDown(); });
  const auto tick = weft::SetFiberTimer(soon, 1ms, [&, counted = false](std::uint64_t) mutable {
    if (!std::exchange(counted, true)) fired.CountDown();
  });
  fired.Wait();
  weft::KillFiberTimerAndWait(tick);
  weft::FiberSleepFor(1ms);
  Expect(*local == 5, "FiberLocal");
}

void UseIo() {
  Expect(weft::FiberBlocking([] { return 7; }) == 7, "FiberBlocking");
  Expect(weft::io::ReadFile("/proc/self/stat").error == std::error_code(), "ReadFile");
  Expect(weft::io::ResolveHost("127.0.0.1", "80").ok(), "ResolveHost");
  weft::io::TcpListener listener;
  Expect(!listener.Listen(*weft::io::SocketAddress::Parse("127.0.0.1:0")), "Listen");
  weft::io::TcpServer server(std::move(listener), [](weft::io::TcpStream& stream) {
    char byte;
    if (stream.ReadAll(&byte, 1).ok()) (void)stream.WriteAll(&byte, 1);
  });
  Expect(server.Start(), "TcpServer");
  weft::io::TcpStream stream;
  Expect(!stream.Connect(server.local_address()), "Connect");
  weft::CancelScope scope;
  const bool watched = scope.Run([&] { Expect(!weft::io::CancelOnHangup(stream, &scope).error(), "CancelOnHangup"); });
  Expect(watched, "CancelScope");
  weft::FiberChannel<int> channel(1);
  weft::FiberEvent event;
  weft::FiberTask<void> task([&] { event.Wait(); });
  weft::Future<int> future = weft::Async([&] { return event.Wait(), 1; });
  const int nothing = eventfd(0, 0);
  const std::size_t which =
      weft::Select(weft::io::OnReadable(stream), weft::io::OnFd(nothing, POLLIN), weft::OnGet(channel),
                   weft::OnSet(event), weft::OnEnd(task), weft::OnReady(future), weft::OnDeadline(1ms));
  Expect(which == 6, "Select");
  event.Set();
  close(nothing);
  char byte = 'x';
  Expect(stream.WriteAll(&byte, 1).ok() && stream.ReadAll(&byte, 1).ok() && byte == 'x', "TcpStream");
  stream.Reset();
  server.Stop(5s);
  int ends[2];
  if (pipe(ends) != 0) return;
  weft::Fiber writer([&] { Expect(write(ends[1], "x", 1) == 1, "write"); });
  Expect(!weft::io::WaitFd(ends[0], POLLIN, 5s).error, "WaitFd");
  writer.Join();
  close(ends[0]);
  close(ends[1]);
  weft::io::UdpSocket socket;
  Expect(!socket.Bind(*weft::io::SocketAddress::Parse("127.0.0.1:0")), "UdpSocket");
}

// Each is unloaded while its variable has a value in this fiber or context, which its code destroys.
void UseAndUnload(const char* plugin, const char* function) {
  void* const library = dlopen(plugin, RTLD_NOW);
  Expect(library != nullptr, plugin);
  if (library == nullptr) return;
  const auto count = reinterpret_cast<int (*)()>(dlsym(library, function));
  Expect(count != nullptr && count() == 1 && count() == 2, function);
  dlclose(library);
  void* const still_there = dlopen(plugin, RTLD_NOW | RTLD_NOLOAD);
  Expect(still_there != nullptr, "a plugin stays while its variables have values");
  if (still_there != nullptr) dlclose(still_there);
}

}  // namespace

// By pairs: a plugin and the function of it that is called.
// What templates and inline functions call.
void UseTemplates() {
  Expect(weft::Retry({.max_attempts = 2}, [] { return 1; }) == 1, "Retry");
  std::ostringstream dump;
  Expect(weft::DumpFibers(dump) && dump.str().starts_with("weft: "), "DumpFibers");
  Expect(!weft::DumpFibersOnSignal(0), "DumpFibersOnSignal");
  Expect(weft::Hedge({.delay = 1h, .max_attempts = 2}, [](std::size_t) { return 2; }) == 2, "Hedge");
  weft::SetSliceErrorHook([](const weft::LongSlice&) {});
  Expect(!weft::SchedulingPolicyNames().empty(), "SchedulingPolicyNames");
}

int RunAgain() {
  std::string name = "public_api";
  char* arguments[] = {name.data(), nullptr};
  int count = 1;
  char** values = arguments;
  return weft::Run(count, values, [] { return failures; });
}

int main(int count, char** arguments) {
  weft::StartRuntime();
  Expect(weft::TryAdmit() == weft::Admission::kAdmitted, "TryAdmit");
  weft::Fiber([&] {
    UsePrimitives();
    UseLocalsAndTimers();
    UseIo();
    UseTemplates();
    const auto context = weft::FiberExecutionContext::Create();
    context->Execute([&] {
      for (int i = 1; i + 1 < count; i += 2) UseAndUnload(arguments[i], arguments[i + 1]);
    });
    weft::FiberYield();
  }).Join();
  Expect(weft::TerminateRuntime() == 0, "TerminateRuntime");
  return RunAgain();
}
