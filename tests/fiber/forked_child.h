// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// For tests of fork(): what a child writes and how it ends.
#ifndef WEFT_TESTS_FIBER_FORKED_CHILD_H_
#define WEFT_TESTS_FIBER_FORKED_CHILD_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

namespace weft::fiber {

inline constexpr int kFine = 42;
inline constexpr unsigned kHangsAfter = 20;  // seconds

// How a child of this process has ended, and what it has written to stderr.
struct Ended {
  int status = 0;
  std::string text;

  bool by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
  bool with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

// in_child() returns: the child ends with kFine.
template <class F>
Ended Fork(F in_child) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kHangsAfter);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    in_child();
    ::_exit(kFine);
  }
  ::close(ends[1]);
  Ended ended;
  std::array<char, 256> buffer{};
  for (;;) {
    const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
    if (count <= 0) break;
    ended.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(pid, &ended.status, 0), pid);
  return ended;
}

inline void ExpectOneLine(const Ended& ended, const std::string& caller) {
  EXPECT_EQ(ended.text,
            "Weft: " + caller +
                ": this process was forked from one in which the runtime ran, and has no workers: fork, or call "
                "daemon(), before StartRuntime(); in the child call nothing but exec() and _exit()\n");
}

}  // namespace weft::fiber

#endif  // WEFT_TESTS_FIBER_FORKED_CHILD_H_
