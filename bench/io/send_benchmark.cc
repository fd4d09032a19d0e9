// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// A fiber sends messages over a loopback connection, another one reads and drops them; the time is that of a message.
//
// BM_SendFile/how:0    PRead() into memory, then WriteAll(): through the pool of threads
// BM_SendFile/how:1    pread(2) on the worker, then WriteAll(): what a cached file costs at least without sendfile(2)
// BM_SendFile/how:2    SendFile()
// BM_SendBlocks/how:0  a message of blocks of 16 KiB is put together, then WriteAll()
// BM_SendBlocks/how:1  WriteAll() of the NoncontiguousBuffer
// BM_ZeroCopy/how:0    send(2) by a plain thread
// BM_ZeroCopy/how:1    with MSG_ZEROCOPY, each completion read. Loopback copies the bytes all the same: docs/decisions.

#include <benchmark/benchmark.h>
#include <linux/errqueue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/base/report/check.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/io/file.h"
#include "weft/io/send_file.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"

namespace weft::bench {
namespace {

// Reads and drops.
class Connection {
 public:
  Connection() {
    io::TcpListener listener;
    WEFT_CHECK(!listener.Listen(io::SocketAddress::LoopbackIpv4(0)), "no address to listen on");
    WEFT_CHECK(!client.Connect(listener.local_address()) && !listener.Accept(&server_), "no connection");
    reader_ = Fiber([this] {
      std::vector<char> nowhere(256 << 10);
      for (;;) {
        const io::IoResult got = server_.ReadSome(nowhere.data(), nowhere.size());
        if (!got.ok() || got.bytes == 0) return;
      }
    });
  }
  ~Connection() {
    client.Close();
    reader_.Join();
  }

  io::TcpStream client;

 private:
  io::TcpStream server_;
  Fiber reader_;
};

void BM_SendFile(benchmark::State& state) {
  const auto how = state.range(0);
  const auto size = static_cast<std::size_t>(state.range(1));
  BenchmarkRuntime runtime(2);
  char name[] = "/tmp/weft_send_benchmark_XXXXXX";
  const int file = ::mkstemp(name);
  WEFT_CHECK(::unlink(name) == 0, "no file");
  const std::string bytes(size, 'x');
  WEFT_CHECK(::write(file, bytes.data(), size) == static_cast<ssize_t>(size), "no file");
  runtime.RunInside([&] {
    Connection connection;
    std::string memory(size, '\0');
    for (auto _ : state) {
      io::IoResult put;
      if (how == 2) {
        put = io::SendFile(&connection.client, file, 0, size);
      } else {
        if (how == 0) static_cast<void>(io::PRead(file, memory.data(), size, 0));
        if (how == 1) static_cast<void>(!::pread(file, memory.data(), size, 0));
        put = connection.client.WriteAll(memory);
      }
      WEFT_CHECK(put.bytes == size, "not sent");
    }
  });
  ::close(file);
}

void BM_SendBlocks(benchmark::State& state) {
  const auto how = state.range(0);
  const auto size = static_cast<std::size_t>(state.range(1));
  BenchmarkRuntime runtime(2);
  runtime.RunInside([&] {
    Connection connection;
    const NoncontiguousBuffer message(std::string(size, 'x'));
    for (auto _ : state) {
      const io::IoResult put =
          how == 0 ? connection.client.WriteAll(message.ToString()) : connection.client.WriteAll(message);
      WEFT_CHECK(put.bytes == size, "not sent");
    }
  });
}

// Reads completions until `done` is `wanted`.
void AwaitCompletions(int fd, std::uint32_t wanted, std::uint32_t* done) {
  while (*done < wanted) {
    char control[128];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (::recvmsg(fd, &message, MSG_ERRQUEUE) < 0) {
      WEFT_CHECK(errno == EAGAIN || errno == EINTR, "no completion");
      std::this_thread::yield();
      continue;
    }
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      const auto* error = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(part));
      if (error->ee_origin == SO_EE_ORIGIN_ZEROCOPY) *done = error->ee_data + 1;
    }
  }
}

void BM_ZeroCopy(benchmark::State& state) {
  const bool zero_copy = state.range(0) != 0;
  const auto size = static_cast<std::size_t>(state.range(1));
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  io::SocketAddress address = io::SocketAddress::LoopbackIpv4(0);
  WEFT_CHECK(::bind(listener, address.data(), address.size()) == 0 && ::listen(listener, 1) == 0, "no listener");
  socklen_t length = address.size();
  WEFT_CHECK(::getsockname(listener, address.data(), &length) == 0, "no address");
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  WEFT_CHECK(::connect(client, address.data(), address.size()) == 0, "no connection");
  const int server = ::accept(listener, nullptr, nullptr);
  const int on = 1;
  WEFT_CHECK(::setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) == 0, "no SO_ZEROCOPY");
  std::thread reader([server] {
    std::vector<char> nowhere(256 << 10);
    while (::recv(server, nowhere.data(), nowhere.size(), 0) > 0) {
    }
  });
  const std::string bytes(size, 'x');
  std::uint32_t calls = 0;
  std::uint32_t done = 0;
  for (auto _ : state) {
    for (std::size_t sent = 0; sent < size;) {
      const ssize_t n = ::send(client, bytes.data() + sent, size - sent, MSG_NOSIGNAL | (zero_copy ? MSG_ZEROCOPY : 0));
      WEFT_CHECK(n > 0, "not sent: ", errno);
      sent += static_cast<std::size_t>(n);
      ++calls;
    }
    if (zero_copy) AwaitCompletions(client, calls, &done);
  }
  ::close(client);
  reader.join();
  ::close(server);
  ::close(listener);
}

void SizesAndWays(benchmark::internal::Benchmark* benchmark, std::int64_t ways) {
  benchmark->ArgNames({"how", "size"})->UseRealTime()->MeasureProcessCPUTime();
  for (const std::int64_t size : {64 << 10, 1 << 20}) {
    for (std::int64_t how = 0; how < ways; ++how) benchmark->Args({how, size});
  }
}

BENCHMARK(BM_SendFile)->Apply([](benchmark::internal::Benchmark* benchmark) { SizesAndWays(benchmark, 3); });
BENCHMARK(BM_SendBlocks)->Apply([](benchmark::internal::Benchmark* benchmark) { SizesAndWays(benchmark, 2); });
BENCHMARK(BM_ZeroCopy)->Apply([](benchmark::internal::Benchmark* benchmark) { SizesAndWays(benchmark, 2); });

}  // namespace
}  // namespace weft::bench
