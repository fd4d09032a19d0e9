// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of a container's seccomp filter that refuses a system call. It cannot be undone: use processes of their own
// (EXPECT_EXIT).
#ifndef WEFT_TESTS_TESTING_FORBID_SYSTEM_CALL_H_
#define WEFT_TESTS_TESTING_FORBID_SYSTEM_CALL_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

namespace weft::testing {

// From now on the call fails with `error`, in the calling thread and those that it creates. False: no seccomp here.
inline bool ForbidSystemCall(long number, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = 4, .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// A child tries it, on a system call that nobody makes.
inline bool CanForbidSystemCalls() {
  const pid_t child = fork();
  if (child == 0) _exit(ForbidSystemCall(0x7fff, 1) ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_FORBID_SYSTEM_CALL_H_
