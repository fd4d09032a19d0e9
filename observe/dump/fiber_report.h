// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberReport: what FiberReader has found, put together and written: as text, or as JSON.
#ifndef WEFT_OBSERVE_DUMP_FIBER_REPORT_H_
#define WEFT_OBSERVE_DUMP_FIBER_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/observe/dump/fiber_filter.h"
#include "weft/observe/dump/fiber_reader.h"
#include "weft/observe/dump/stack_table.h"
#include "weft/observe/dump_options.h"
#include "weft/observe/wait_cycles.h"
#include "weft/timer/callback/timer_census.h"

namespace weft::observe {

class FiberReport {
 public:
  FiberReport(const DumpOptions& options, const FiberFilter& filter, StackUnwinder* unwinder, const StackTable& stacks)
      : options_(options), filter_(filter), unwinder_(*unwinder), stacks_(stacks) {}

  void Add(FiberRecord fiber);
  // A line for the head of the report.
  void Remark(std::string line);
  // Shown if there are any.
  void Add(timer::TimerCensus timers) { timers_ = std::move(timers); }
  // Of JSON: it says so, too, if there are none.
  void Add(std::vector<WaitCycle> cycles) { cycles_ = std::move(cycles); }
  // When all are there.
  void Write(std::ostream& out);

 private:
  // Fibers that are shown together.
  struct Group {
    std::vector<const FiberRecord*> fibers;
    const FiberRecord& first() const { return *fibers.front(); }
  };

  void FindOwners();
  std::vector<Group> MakeGroups() const;
  const FiberRecord* OwnerOf(const FiberRecord& fiber) const;
  const FrameName& NameOf(std::uint64_t address);

  void WriteText(std::ostream& out);
  void WriteTextGroup(std::ostream& out, const Group& group);
  void WriteTextWait(std::ostream& out, const Group& group);
  void WriteTextList(std::ostream& out, const Group& group);
  void WriteTextStack(std::ostream& out, const FiberRecord& fiber);
  void WriteTextTimers(std::ostream& out) const;
  void WriteJson(std::ostream& out);
  void WriteJsonFiber(std::ostream& out, const FiberRecord& fiber);
  void WriteJsonStack(std::ostream& out, std::size_t number);
  void WriteJsonTimers(std::ostream& out) const;
  void WriteJsonCycles(std::ostream& out) const;

  const DumpOptions& options_;
  const FiberFilter& filter_;
  StackUnwinder& unwinder_;
  const StackTable& stacks_;
  std::size_t count_ = 0;                                  // of all
  std::map<std::string_view, std::size_t> counts_;         // likewise, by state
  std::vector<FiberRecord> fibers_;                        // owners are among them
  std::map<std::uint64_t, const FiberRecord*> by_top_;     // of the stack
  std::map<std::uint64_t, const FiberRecord*> by_entity_;  // both: when all are there
  std::map<std::uint64_t, FrameName> names_;
  std::vector<std::string> remarks_;
  timer::TimerCensus timers_;
  std::optional<std::vector<WaitCycle>> cycles_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_FIBER_REPORT_H_
