// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// In forked children: the descriptors have fixed numbers, and the environment is the process's.

#include "weft/net/systemd_listeners.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "weft/io/socket_address.h"

namespace weft::io {
namespace {

// Calls f in a child and returns its result, 0 to 255.
template <class F>
int InChild(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// From then on `to` is a listening socket.
void PutListener(int to) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const SocketAddress address = SocketAddress::LoopbackIpv4(0);
  if (::bind(fd, address.data(), address.size()) != 0 || ::listen(fd, 5) != 0 || ::dup2(fd, to) != to) ::_exit(99);
  if (fd != to) ::close(fd);
}

void SetEnvironment(const std::string& pid, const std::string& count, const char* names = nullptr) {
  ::setenv("LISTEN_PID", pid.c_str(), 1);
  ::setenv("LISTEN_FDS", count.c_str(), 1);
  if (names != nullptr) ::setenv("LISTEN_FDNAMES", names, 1);
}

std::string Self() { return std::to_string(::getpid()); }

TEST(SystemdListeners, TakesTheSocketsWithTheirNames) {
  EXPECT_EQ(InChild([] {
              PutListener(3);
              PutListener(4);
              SetEnvironment(Self(), "2", "http:admin");
              std::vector<SystemdListener> passed;
              if (SystemdListeners(&passed) || passed.size() != 2) return 1;
              if (passed[0].name != "http" || passed[0].listener.fd() != 3) return 2;
              if (passed[1].name != "admin" || passed[1].listener.fd() != 4) return 3;
              return (::fcntl(3, F_GETFL) & O_NONBLOCK) != 0 && (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0 ? 0 : 4;
            }),
            0);
}

TEST(SystemdListeners, WhatIsMeantForAnotherProcessIsNotTaken) {
  EXPECT_EQ(InChild([] {
              std::vector<SystemdListener> passed;
              ::unsetenv("LISTEN_PID");
              if (SystemdListeners(&passed) || !passed.empty()) return 1;
              PutListener(3);
              SetEnvironment(std::to_string(::getppid()), "1");
              if (SystemdListeners(&passed) || !passed.empty()) return 2;
              SetEnvironment(Self(), "0");
              return SystemdListeners(&passed) || !passed.empty() ? 3 : 0;
            }),
            0);
}

TEST(SystemdListeners, SaysWhatIsWrong) {
  EXPECT_EQ(InChild([] {
              std::vector<SystemdListener> passed;
              for (const char* count : {"", "x", "1x", "-1", "99999999999999999999", "1000000"}) {
                SetEnvironment(Self(), count);
                if (SystemdListeners(&passed) != std::errc::invalid_argument) return 1;
              }
              SetEnvironment("x", "1");
              if (SystemdListeners(&passed) != std::errc::invalid_argument) return 2;
              PutListener(3);
              ::close(4);
              SetEnvironment(Self(), "2");
              if (SystemdListeners(&passed) != std::errc::bad_file_descriptor || !passed.empty()) return 3;
              return ::fcntl(3, F_GETFL) >= 0 && (::fcntl(3, F_GETFL) & O_NONBLOCK) == 0 ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace weft::io
