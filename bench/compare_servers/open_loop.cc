// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An HTTP load with a schedule, as clients make it that do not know of each other: requests are due at random times
// (Poisson), whatever the server does, and each latency counts from then. A load generator that sends the next request
// when the last one is answered sends none while the server stands still, and so counts one late answer where many
// would have been late ("coordinated omission", G. Tene).
//
//   open_loop --port=8080 --rate=20000 [--path=/json] [--connections=50] [--seconds=3]
//
// One thread. A request takes a connection that has none under way, or waits for one. The latencies of the first tenth
// of the time are left out. Prints   requests=.. rate=.. p50_us=.. p99_us=.. p999_us=..   and exits with status 1 if an
// answer has another status than 200, or is 10 s late.

#include <arpa/inet.h>
#include <gflags/gflags.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

DEFINE_uint32(port, 0, "Of the server, on 127.0.0.1.");
DEFINE_double(rate, 0, "Requests due a second, on average.");
DEFINE_double(seconds, 3, "For how long requests are due.");
DEFINE_uint32(connections, 50, "Connections.");
DEFINE_string(path, "/json", "What is asked for.");

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "open_loop: %s\n", why.c_str());
  std::exit(EXIT_FAILURE);
}

int Connect() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(FLAGS_port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  if (descriptor < 0 || ::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    Fail("cannot connect to --port=" + std::to_string(FLAGS_port));
  }
  return descriptor;
}

// One request and its answer at a time.
struct Connection {
  int descriptor = -1;
  Clock::time_point due;      // of the request under way
  std::string head;           // of the answer, until it is whole
  std::size_t body_left = 0;  // of the answer, when its head is whole
};

// The bytes of the body that `head` announces.
std::size_t BodyOf(std::string_view head) {
  constexpr std::string_view kLength = "content-length: ";
  const auto is_same = [](unsigned char of_head, char lower) { return std::tolower(of_head) == lower; };
  const auto at = std::search(head.begin(), head.end(), kLength.begin(), kLength.end(), is_same);
  std::size_t length = 0;
  if (!head.starts_with("HTTP/1.1 200 ") || at == head.end() ||
      std::from_chars(at + kLength.size(), head.end(), length).ec != std::errc()) {
    Fail("expected an answer with status 200 and a Content-Length, got: " + std::string(head));
  }
  return length;
}

// True: the answer is whole.
bool Receive(Connection* connection) {
  char bytes[65536];
  const ssize_t got = ::recv(connection->descriptor, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got < 0) return false;
  if (got == 0) Fail("the server has closed a connection");
  std::string_view rest(bytes, static_cast<std::size_t>(got));
  if (connection->body_left == 0) {
    connection->head.append(rest);
    const std::size_t end = connection->head.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const std::size_t behind = connection->head.size() - (end + 4);
    connection->body_left = BodyOf(std::string_view(connection->head).substr(0, end));
    connection->head.clear();
    rest = rest.substr(rest.size() - behind);
  }
  if (rest.size() > connection->body_left) Fail("an answer is longer than it says");
  connection->body_left -= rest.size();
  return connection->body_left == 0;
}

class Load {
 public:
  Load() : connections_(FLAGS_connections) {
    for (Connection& connection : connections_) {
      connection.descriptor = Connect();
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
      if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.descriptor, &event) != 0) Fail("epoll_ctl");
      idle_.push_back(&connection);
    }
    latencies_.reserve(static_cast<std::size_t>(FLAGS_rate * FLAGS_seconds * 1.2) + 1000);
  }

  void Run() {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end = begin + Of(FLAGS_seconds);
    const Clock::time_point counts_from = begin + Of(FLAGS_seconds / 10);
    Clock::time_point next = begin + Gap();
    while (next < end || !waiting_.empty() || idle_.size() != connections_.size()) {
      const Clock::time_point now = Clock::now();
      for (; next <= now && next < end; next += Gap()) waiting_.push_back(next);
      if (now > end + std::chrono::seconds(10)) Fail("an answer is 10 s late");
      while (!waiting_.empty() && !idle_.empty()) Send();
      Wait(next < end ? next - now : std::chrono::milliseconds(100), counts_from);
    }
    Report(std::chrono::duration<double>(end - counts_from).count());
  }

 private:
  static Clock::duration Of(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::duration Gap() { return Of(gaps_(random_)); }

  void Send() {
    Connection* const connection = idle_.front();
    idle_.pop_front();
    connection->due = waiting_.front();
    waiting_.pop_front();
    if (::send(connection->descriptor, request_.data(), request_.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request_.size())) {
      Fail("cannot send a request");
    }
  }

  void Wait(Clock::duration most, Clock::time_point counts_from) {
    const auto nanoseconds = std::max<std::int64_t>(std::chrono::nanoseconds(most).count(), 0);
    const timespec timeout{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    epoll_event events[64];
    const int count = ::epoll_pwait2(epoll_, events, 64, &timeout, nullptr);
    for (int i = 0; i < count; ++i) {
      auto* const connection = static_cast<Connection*>(events[i].data.ptr);
      if (!Receive(connection)) continue;
      if (connection->due >= counts_from) latencies_.push_back(Clock::now() - connection->due);
      idle_.push_back(connection);
    }
  }

  void Report(double seconds) {
    if (latencies_.empty()) Fail("no request was due: a higher --rate, or more --seconds");
    std::sort(latencies_.begin(), latencies_.end());
    const auto part = [&](double of_all) {
      const auto at = static_cast<std::size_t>(of_all * static_cast<double>(latencies_.size()));
      return std::chrono::duration<double, std::micro>(latencies_[std::min(at, latencies_.size() - 1)]).count();
    };
    std::printf("requests=%zu rate=%.0f p50_us=%.0f p99_us=%.0f p999_us=%.0f\n", latencies_.size(),
                static_cast<double>(latencies_.size()) / seconds, part(0.5), part(0.99), part(0.999));
  }

  const std::string request_ = "GET " + FLAGS_path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const int epoll_ = ::epoll_create1(0);
  std::vector<Connection> connections_;
  std::deque<Connection*> idle_;
  std::deque<Clock::time_point> waiting_;  // requests that are due and have no connection
  std::vector<Clock::duration> latencies_;
  std::mt19937_64 random_{1};
  std::exponential_distribution<double> gaps_{FLAGS_rate};
};

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an HTTP load with a schedule");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) Fail(std::string("unknown argument ") + argv[1] + ": see --help");
  if (FLAGS_port == 0 || FLAGS_port > 65535) Fail("--port: expected 1 to 65535");
  if (!(FLAGS_rate > 0) || !(FLAGS_seconds > 0) || FLAGS_connections == 0) {
    Fail("--rate, --seconds and --connections: expected more than 0");
  }
  Load().Run();
}
