// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers in a program that has an epoll loop. The loop watches one descriptor more, FiberLoop::NotifyFd(), and calls
// RunReady() when it is readable.

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>

#include "programs.h"

namespace {

// What the program had before: callbacks by descriptor.
class EpollLoop {
 public:
  EpollLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) std::abort();
  }
  ~EpollLoop() { ::close(epoll_); }

  void Watch(int fd, std::function<void()> callback) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
    callbacks_[fd] = std::move(callback);
  }

  void CallLater(std::chrono::milliseconds after, std::function<void()> callback) {
    const int fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    itimerspec when{};
    when.it_value.tv_nsec = std::chrono::nanoseconds(after).count();
    if (fd < 0 || ::timerfd_settime(fd, 0, &when, nullptr) != 0) std::abort();
    Watch(fd, [this, fd, callback = std::move(callback)] {
      callback();
      ::close(fd);
      callbacks_.erase(fd);
    });
  }

  void Run() {
    while (!stopped_) {
      epoll_event event;
      if (::epoll_wait(epoll_, &event, 1, -1) != 1) {
        if (errno == EINTR) continue;
        std::abort();
      }
      const auto callback = callbacks_.at(event.data.fd);  // A copy: it may remove itself.
      callback();
    }
  }
  void Stop() { stopped_ = true; }

 private:
  const int epoll_;
  std::map<int, std::function<void()>> callbacks_;
  bool stopped_ = false;
};

}  // namespace

int main() {
  EpollLoop epoll;
  weft::FiberLoop fibers;
  epoll.Watch(fibers.NotifyFd(), [&] { fibers.RunReady(); });

  const fiber_loop_example::Program program(
      fibers, [&](auto after, auto answer) { epoll.CallLater(after, answer); }, [&] { epoll.Stop(); });
  epoll.Run();
  fibers.Run();  // what the last tasks still do after they have stopped the loop
  std::cout << "done" << std::endl;
}
