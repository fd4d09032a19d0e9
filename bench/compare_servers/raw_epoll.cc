// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The floor of bench/compare_servers.sh: what a server costs that does nothing. One thread, one epoll, a read and a
// write for each request; it does not parse, and answers each end of a header with the same bytes, those of GET /json.
//   raw_epoll            on a free port, which it prints; until it is killed

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

#define RAW_ANSWER(connection)                                                           \
  "HTTP/1.1 200 OK\r\nServer: raw\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n" connection \
  "Content-Type: application/json\r\nContent-Length: 27\r\n\r\n{\"message\":\"Hello, World!\"}"
constexpr std::string_view kAnswer = RAW_ANSWER("");
constexpr std::string_view kLastAnswer = RAW_ANSWER("Connection: close\r\n");

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(EXIT_FAILURE);
}

// On a free port of the loopback device, which it prints.
int Listen() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (listener < 0 || ::bind(listener, generic, size) != 0 || ::listen(listener, 4096) != 0 ||
      ::getsockname(listener, generic, &size) != 0) {
    Fail("raw_epoll: cannot listen");
  }
  std::printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return listener;
}

void Watch(int epoll, int descriptor) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) Fail("raw_epoll: epoll_ctl");
}

// A request is thought to come in one read, as those of load generators do. False: the client has gone.
bool Serve(int connection) {
  char bytes[16384];
  const ssize_t got = ::read(connection, bytes, sizeof(bytes));
  if (got <= 0) return got < 0 && errno == EAGAIN;
  const std::string_view requests(bytes, static_cast<std::size_t>(got));
  const bool is_last = requests.find("Connection: close") != requests.npos;
  std::string answers;
  for (std::size_t end = requests.find("\r\n\r\n"); end != requests.npos; end = requests.find("\r\n\r\n", end + 4)) {
    answers += is_last ? kLastAnswer : kAnswer;
  }
  if (::write(connection, answers.data(), answers.size()) != static_cast<ssize_t>(answers.size())) return false;
  return !is_last;
}

}  // namespace

int main() {
  const int epoll = ::epoll_create1(0);
  const int listener = Listen();
  Watch(epoll, listener);
  for (;;) {
    epoll_event events[256];
    const int count = ::epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; ++i) {
      const int descriptor = events[i].data.fd;
      if (descriptor != listener) {
        if (!Serve(descriptor)) ::close(descriptor);
        continue;
      }
      for (;;) {
        const int connection = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        if (connection < 0) break;
        const int on = 1;
        ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        Watch(epoll, connection);
      }
    }
  }
}
