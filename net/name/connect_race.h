// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ConnectRace: the attempts of ConnectToFirst() (net/connect_to_host.h).
//
// Invariants
//   CR1  While an address is left and the race is not over, an attempt is pending or the next one begins at once.
//   CR2  Each pending attempt is in the epoll set once, and is asked for its outcome when it is reported.
//   CR3  What did not win is closed when the race goes.
#ifndef WEFT_NET_NAME_CONNECT_RACE_H_
#define WEFT_NET_NAME_CONNECT_RACE_H_

#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"

namespace weft::io {

// The families alternate, beginning with that of the first (RFC 8305, section 4); otherwise the order stays.
std::vector<SocketAddress> AlternateFamilies(const std::vector<SocketAddress>& addresses);

class ConnectRace {
 public:
  ConnectRace(std::span<const SocketAddress> addresses, std::chrono::nanoseconds attempt_delay)
      : left_(addresses), attempt_delay_(attempt_delay) {}
  ~ConnectRace();
  ConnectRace(const ConnectRace&) = delete;
  ConnectRace& operator=(const ConnectRace&) = delete;

  // Once. Fiber or thread. Success: *winner is connected.
  [[nodiscard]] std::error_code Run(Descriptor* winner, Deadline deadline);

 private:
  enum class Outcome { kPending, kConnected, kFailed };

  std::error_code Open();
  Outcome BeginNext();
  Outcome Begin(const SocketAddress& address, Descriptor* socket);
  std::error_code Await(Deadline until);
  bool TakeOutcomes();
  Outcome OutcomeOf(Descriptor* socket, bool has_ended);
  void NoteFailure(std::error_code error);
  Outcome Win(Descriptor* socket);

  std::span<const SocketAddress> left_;
  const std::chrono::nanoseconds attempt_delay_;
  int epoll_ = -1;
  std::vector<Descriptor> attempts_;  // not open: it has ended
  std::size_t pending_ = 0;
  std::error_code failure_;
  Descriptor winner_;
};

}  // namespace weft::io

#endif  // WEFT_NET_NAME_CONNECT_RACE_H_
