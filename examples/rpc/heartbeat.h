// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Heartbeat: when one end asks a silent peer whether it is still there, and when it gives it up. A host that has lost
// its power or its network ends no connection: without pings its peer waits for it for ever.
//
//     heard -- silent for ping_after --> a ping is sent -- silent for timeout --> the peer has vanished
//       ^                                        |
//       +------- any byte of the peer -----------+
//
// What it costs: a frame of 24 bytes each way for each ping_after in which the peer has sent nothing. A client has a
// timer for each read that has to wait; a server looks at all its connections now and then (rpc_server.cc).
// What it trades: a shorter timeout finds a dead peer sooner, and gives up one whose CPU is busy, or whose network
// stands still, for so long. A peer that reads nothing is given up by its writer (BatchWriter::Options::timeout). One
// that sends half a frame in single bytes is heard, and is kept.
//
// The class is the state of a client's reader, which reads and writes. One user at a time.
#ifndef WEFT_EXAMPLES_RPC_HEARTBEAT_H_
#define WEFT_EXAMPLES_RPC_HEARTBEAT_H_

#include <chrono>
#include <utility>

#include "weft/base/deadline.h"

namespace weft::rpc {

class Heartbeat {
 public:
  struct Options {
    // 0: no pings, and peers are waited for without end. Pings of the other side are answered all the same.
    std::chrono::milliseconds ping_after{30'000};
    std::chrono::milliseconds timeout{20'000};
  };

  explicit Heartbeat(const Options& options) : options_(options) {}

  // For the next read.
  Deadline ReadUntil() const {
    if (options_.ping_after.count() == 0) return {};
    return pinged_ ? options_.timeout : options_.ping_after;
  }
  // Bytes have come.
  void Heard() { pinged_ = false; }
  // A read has waited until then in vain. True: a ping is to be sent. False: the peer has vanished.
  [[nodiscard]] bool MayPing() { return !std::exchange(pinged_, true); }

 private:
  const Options options_;
  bool pinged_ = false;
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_HEARTBEAT_H_
