// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: fibers put into a channel that nobody reads any more. They pile up, and the program does not end.
//
//   what is wrong    the reader gives up at the first bad item, and does not close the channel
//   what shows it    a dump (kill -QUIT <pid>): the putters stand together, in channel_put of one address, and for how
//                    long; no fiber is in channel_get of it
//   what to do       close the channel in whatever ends the reader: Put() then returns kClosed
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <csignal>
#include <iostream>
#include <vector>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

using Orders = weft::FiberChannel<int>;

constexpr int kBadOrder = 7;

[[gnu::noinline]] void HandleOrders(Orders* orders) {
  while (const auto order = orders->Get()) {
    if (*order == kBadOrder) return;  // Without orders->Close().
  }
}

[[gnu::noinline]] void TakeOrder(Orders* orders, int number) { static_cast<void>(orders->Put(number)); }

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  constexpr int kOrders = 100;
  Orders orders(/*capacity=*/4);
  weft::Fiber handler({.name = "order handler"}, [&] { HandleOrders(&orders); });
  std::vector<weft::Fiber> clients;
  for (int i = 0; i < kOrders; ++i) {
    clients.emplace_back(weft::Fiber::Attributes{.name = "order client"}, [&orders, i] { TakeOrder(&orders, i); });
  }
  handler.Join();
  std::cout << "The order handler has ended." << std::endl;
  for (weft::Fiber& client : clients) client.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
