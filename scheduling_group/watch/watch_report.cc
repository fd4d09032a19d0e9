// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/watch_report.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "weft/base/report/log.h"
#include "weft/base/report/str_cat.h"

namespace weft::scheduling_group {
namespace {

// Calls that block. `restarts`: signal(7) lists it neither among those that fail with EINTR in spite of SA_RESTART, nor
// among those that do so if a socket has a time-out.
struct SystemCall {
  long number;
  std::string_view name;
  bool restarts = false;
};
constexpr SystemCall kSystemCalls[] = {
    {SYS_futex, "futex() (a std::mutex, a condition variable, a thread's end)", true},
    {SYS_fsync, "fsync()", true},
    {SYS_fdatasync, "fdatasync()", true},
    {SYS_flock, "flock()", true},
    {SYS_openat, "openat()", true},
    {SYS_wait4, "wait4()", true},
    {SYS_waitid, "waitid()", true},
    {SYS_read, "read()"},
    {SYS_write, "write()"},
    {SYS_readv, "readv()"},
    {SYS_writev, "writev()"},
    {SYS_pread64, "pread()"},
    {SYS_pwrite64, "pwrite()"},
    {SYS_fcntl, "fcntl()"},
    {SYS_ioctl, "ioctl()"},
    {SYS_connect, "connect()"},
    {SYS_accept, "accept()"},
    {SYS_accept4, "accept()"},
    {SYS_recvfrom, "recv()"},
    {SYS_recvmsg, "recvmsg()"},
    {SYS_sendto, "send()"},
    {SYS_sendmsg, "sendmsg()"},
    {SYS_ppoll, "poll()"},
    {SYS_pselect6, "select()"},
    {SYS_epoll_pwait, "epoll_wait()"},
    {SYS_nanosleep, "nanosleep()"},
    {SYS_clock_nanosleep, "a sleep (clock_nanosleep())"},
    {SYS_rt_sigtimedwait, "sigwait()"},
#ifdef SYS_poll  // Newer machines have none of these.
    {SYS_poll, "poll()"},
    {SYS_select, "select()"},
    {SYS_epoll_wait, "epoll_wait()"},
    {SYS_open, "open()", true},
#endif
};

std::string ReadLine(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::array<char, 256> text;
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
}

// Of a futex(): its fourth argument. Then a signal ends it (restart_syscall(2)), and so sem_timedwait().
bool HasTimeout(std::string_view line) {
  for (int i = 0; i < 4; ++i) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return false;
    line.remove_prefix(space + 1);
  }
  return !line.starts_with("0x0 ");
}

std::int64_t Milliseconds(std::chrono::nanoseconds time) noexcept { return time / std::chrono::milliseconds(1); }

void ReportLateTimers(const LateTimers& trouble) {
  const TimerThread& timers = trouble.timers;
  const std::string_view does = trouble.does.text.empty() ? "is hidden" : std::string_view(trouble.does.text);
  const std::string head =
      base::StrCat("the timers of scheduling group ", trouble.label, " are late: one has been due for ",
                   Milliseconds(timers.late), " ms, and the timer thread (thread ", timers.thread, ") ");
  if (!timers.callback.empty()) {
    WEFT_LOG(WARNING, head, does, " in the callback ", timers.callback, "; a callback of CreateFiberTimer() ",
             trouble.does.blocked ? "may not wait" : "must be short",
             ": SetFiberTimer() gives it a fiber (--fiber_stall_warning_ms)");
  } else {
    WEFT_LOG(WARNING, head, trouble.does.blocked ? does : "gets no CPU, or has more timers than it can fire",
             "; leave CPU time to it: fewer busy threads on its CPUs, or fewer timers (--fiber_stall_warning_ms)");
  }
}

void ReportLoneGroup(const LoneGroup& trouble) {
  const std::string_view flag =
      trouble.same_node ? "--fiber_work_stealing_ratio" : "--fiber_cross_numa_work_stealing_ratio";
  const std::string advice =
      trouble.may_steal ? base::StrCat("group ", trouble.helper,
                                       " may steal from it, but not fibers that are local to their group: leave"
                                       " FiberAttributes::scheduling_group_local to those that must be")
                        : base::StrCat("group ", trouble.helper, " may not steal from it (", flag,
                                       "): allow that, or start some elsewhere (kUnspecifiedSchedulingGroup)");
  WEFT_LOG(WARNING, "scheduling group ", trouble.label, " works alone: for ", Milliseconds(trouble.lasts),
           " ms fibers have been ready at each look (", trouble.ready,
           " now) and no worker was idle, while all workers of group ", trouble.helper, " slept; ", advice,
           " (--fiber_stall_warning_ms)",
           DescribeFibers(base::StrCat("state=new|ready,group=", trouble.group), /*running_stacks=*/false));
}

void ReportManyStacks(const ManyStacks& trouble) {
  WEFT_LOG(WARNING, "scheduling group ", trouble.label, " uses more and more stacks: ", trouble.in_use,
           " are in use (in all groups: ", trouble.in_all,
           "); look what the fibers below wait for, or start less (weft/fiber/fiber_limiter.h)"
           " (--fiber_stall_warning_ms)",
           DescribeFibers(base::StrCat("group=", trouble.group), /*running_stacks=*/false));
}

void ReportLongWaits(const LongWaits& trouble) {
  WEFT_LOG(WARNING, "scheduling group ", trouble.label, " has more work than its workers can do: of ", trouble.ready,
           " ready fibers the oldest has waited for ", Milliseconds(trouble.oldest),
           " ms; take less work at a time (weft/fiber/fiber_limiter.h, ForEach()), or give it more CPUs"
           " (--fiber_stall_warning_ms)",
           DescribeFibers(base::StrCat("state=new|ready,group=", trouble.group), /*running_stacks=*/false));
}

}  // namespace

std::string DescribeFibers(std::string_view filter, bool running_stacks) {
  // acquire: pairs with the release in dump_install.cc.
  const FiberDescriber describe = describe_fibers.load(std::memory_order_acquire);
  return describe != nullptr ? "\n" + describe(filter, running_stacks) : "";
}

std::string_view AdviceTo(bool computes, bool blocked) noexcept {
  if (computes && blocked)
    return "; a call that blocks belongs into FiberBlocking(), a long computation needs FiberYield()";
  return blocked ? "; a call that blocks belongs into FiberBlocking()" : "; a long computation needs FiberYield()";
}

ThreadNow ParseThreadNow(std::string_view line) {
  if (line.starts_with("running")) return {.text = "computes", .blocked = false, .may_be_signalled = true};
  long number = -1;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), number);
  if (parsed.ec != std::errc()) return {};
  if (number < 0) return {.text = "waits for memory or a debugger", .blocked = true, .may_be_signalled = true};
  for (const SystemCall& call : kSystemCalls) {
    if (call.number != number) continue;
    const bool bears_it = call.restarts && !(number == SYS_futex && HasTimeout(line));
    return {.text = base::StrCat("is blocked in ", call.name), .blocked = true, .may_be_signalled = bears_it};
  }
  return {.text = base::StrCat("is blocked in system call ", number), .blocked = true, .may_be_signalled = false};
}

ThreadNow LookAtThread(pid_t thread) {
  return ParseThreadNow(ReadLine(base::StrCat("/proc/self/task/", thread, "/syscall")));
}

void ReportStandstill(const Standstill& standstill) {
  constexpr std::size_t kMostWorkers = 8;
  std::string workers;
  bool may_ask = true;
  bool computes = false;
  bool blocked = false;
  for (std::size_t i = 0; i < standstill.workers.size(); ++i) {
    const auto& [index, thread] = standstill.workers[i];
    const ThreadNow now = LookAtThread(thread);
    may_ask = may_ask && now.may_be_signalled;
    computes = computes || !now.blocked;
    blocked = blocked || now.blocked || now.text.empty();
    if (i < kMostWorkers) {
      workers += base::StrCat(i == 0 ? "worker " : ", worker ", index, " (thread ", thread, ") ",
                              now.text.empty() ? "is hidden" : now.text);
    }
  }
  if (standstill.workers.size() > kMostWorkers)
    workers += base::StrCat(" and ", standstill.workers.size() - kMostWorkers, " more");
  const std::string filter = base::StrCat("state=running,group=", standstill.group);
  WEFT_LOG(WARNING, "scheduling group ", standstill.label, " stands still: ", standstill.ready,
           " fibers are ready, and no worker has switched for ", Milliseconds(standstill.lasts), " ms: ", workers,
           AdviceTo(computes, blocked), " (--fiber_stall_warning_ms)", DescribeFibers(filter, may_ask));
}

void ReportTrouble(const GroupTrouble& trouble) {
  struct Reporter {
    void operator()(const Standstill& it) const { ReportStandstill(it); }
    void operator()(const LateTimers& it) const { ReportLateTimers(it); }
    void operator()(const LoneGroup& it) const { ReportLoneGroup(it); }
    void operator()(const ManyStacks& it) const { ReportManyStacks(it); }
    void operator()(const LongWaits& it) const { ReportLongWaits(it); }
  };
  std::visit(Reporter(), trouble);
}

}  // namespace weft::scheduling_group
