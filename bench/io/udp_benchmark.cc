// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// A fiber sends 32 datagrams of 1,200 bytes over loopback to a socket, and receives them there; the time is that of all
// 32, items_per_second counts datagrams.
//
// BM_Udp/send:0 SendTo() each    1 SendMany()       2 SendSegments()
// BM_Udp/receive:0 ReceiveFrom() each    1 ReceiveMany()

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/io/socket_address.h"
#include "weft/io/udp_socket.h"

namespace weft::bench {
namespace {

constexpr std::size_t kCount = 32;
constexpr std::size_t kSize = 1'200;

void Send(io::UdpSocket& socket, std::int64_t how, std::string& bytes, const io::SocketAddress& to) {
  if (how == 0) {
    for (std::size_t i = 0; i < kCount; ++i) {
      WEFT_CHECK(socket.SendTo(bytes.data() + i * kSize, kSize, to).ok(), "not sent");
    }
  } else if (how == 1) {
    std::vector<io::Datagram> datagrams;
    for (std::size_t i = 0; i < kCount; ++i) {
      datagrams.push_back({.data = bytes.data() + i * kSize, .size = kSize, .peer = to});
    }
    WEFT_CHECK(socket.SendMany(datagrams).ok(), "not sent");
  } else {
    WEFT_CHECK(socket.SendSegments(bytes.data(), bytes.size(), kSize, to).ok(), "not sent");
  }
}

void Receive(io::UdpSocket& socket, std::int64_t how, std::string& bytes) {
  if (how == 0) {
    io::SocketAddress from;
    for (std::size_t i = 0; i < kCount; ++i) {
      WEFT_CHECK(socket.ReceiveFrom(bytes.data() + i * kSize, kSize, &from).bytes == kSize, "not received");
    }
    return;
  }
  for (std::size_t got = 0; got < kCount;) {
    std::vector<io::Datagram> datagrams;
    for (std::size_t i = got; i < kCount; ++i) datagrams.push_back({.data = bytes.data() + i * kSize, .size = kSize});
    const io::DatagramsResult some = socket.ReceiveMany(datagrams);
    WEFT_CHECK(some.ok(), "not received");
    got += some.datagrams;
  }
}

void BM_Udp(benchmark::State& state) {
  BenchmarkRuntime runtime(1);
  runtime.RunInside([&] {
    io::UdpSocket from;
    io::UdpSocket to;
    WEFT_CHECK(!from.Bind(io::SocketAddress::LoopbackIpv4(0)) && !to.Bind(io::SocketAddress::LoopbackIpv4(0)),
               "no address");
    const io::SocketAddress address = to.local_address();
    std::string sent(kCount * kSize, 'x');
    std::string received(kCount * kSize, '\0');
    for (auto _ : state) {
      Send(from, state.range(0), sent, address);
      Receive(to, state.range(1), received);
    }
  });
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCount));
}

BENCHMARK(BM_Udp)->ArgNames({"send", "receive"})->ArgsProduct({{0, 1, 2}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace weft::bench
