// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/fiber_filter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace weft::observe {
namespace {

using namespace std::chrono_literals;
using scheduling_group::FiberPhase;
using scheduling_group::WaitKind;
using scheduling_group::WaitReason;

FiberRecord Parked() {
  FiberRecord fiber;
  fiber.id = 42;
  fiber.name = "worker 7";
  fiber.group = 1;
  fiber.group_name = "batch";
  fiber.phase = FiberPhase::kParked;
  fiber.is_parked = true;
  fiber.reason = WaitReason(WaitKind::kMutex, nullptr);
  fiber.waits_for = 2s;
  fiber.stack_top = 16;
  return fiber;
}

bool Accepts(const std::string& text, const FiberRecord& fiber) {
  std::string error;
  const auto filter = FiberFilter::Parse(text, &error);
  EXPECT_TRUE(filter.has_value()) << error;
  return filter.has_value() && filter->Accepts(fiber);
}

TEST(FiberFilter, NoneAcceptsAll) {
  EXPECT_TRUE(Accepts("", Parked()));
  EXPECT_TRUE(Accepts("", FiberRecord()));
}

TEST(FiberFilter, EachTermMustHold) {
  for (const char* term :
       {"name=worker*", "state=parked", "state=new|parked", "reason=mutex", "reason=join|mutex", "age=2s", "age=1999ms",
        "group=1", "group=batch", "id=42", "state=parked,name=worker ?,id=42"}) {
    EXPECT_TRUE(Accepts(term, Parked())) << term;
  }
  for (const char* term :
       {"name=work", "name=", "state=running", "reason=join", "age=2001ms", "age=1m", "age=1h", "age=3000000h",
        "group=0", "group=bat", "group=-1", "id=4", "state=parked,id=43", "id=43,state=parked"}) {
    if (std::string(term) == "name=") continue;
    EXPECT_FALSE(Accepts(term, Parked())) << term;
  }
}

TEST(FiberFilter, OnlyAParkedFiberHasAReasonAndAnAge) {
  FiberRecord running = Parked();
  running.phase = FiberPhase::kRunning;
  running.is_parked = false;
  EXPECT_TRUE(Accepts("state=running", running));
  EXPECT_FALSE(Accepts("reason=mutex", running));
  EXPECT_FALSE(Accepts("age=1ms", running));
}

TEST(FiberFilter, AFiberWithoutAStackIsNew) {
  FiberRecord ready = Parked();
  ready.phase = FiberPhase::kReady;
  ready.is_parked = false;
  EXPECT_TRUE(Accepts("state=ready", ready));
  ready.stack_top = 0;
  EXPECT_TRUE(Accepts("state=new", ready));
}

TEST(FiberFilter, AnErrorNamesWhatIsKnown) {
  std::string error;
  EXPECT_FALSE(FiberFilter::Parse("id=1,size=3", &error));
  EXPECT_EQ(error, "DumpFibers: unknown filter 'size=3': known are name=, state=, reason=, age=, group= and id=");
  EXPECT_FALSE(FiberFilter::Parse("state=new,id=3,state=ready", &error).has_value());
  EXPECT_EQ(error, "DumpFibers: unknown filter 'state=ready': once only; several states are state=new|ready");
  EXPECT_FALSE(FiberFilter::Parse("name=", &error));
  EXPECT_FALSE(FiberFilter::Parse("reason=mutex|cat", &error));
  EXPECT_NE(error.find("the reasons are mutex, shared_mutex, "), std::string::npos) << error;
}

// What debuggers rely on.
TEST(WaitReason, KeepsKindObjectAndWhetherItIsTimed) {
  const int object = 0;
  const WaitReason reason(WaitKind::kTimerCallback, &object);
  EXPECT_EQ(reason.kind(), WaitKind::kTimerCallback);
  EXPECT_EQ(reason.object(), reinterpret_cast<std::uintptr_t>(&object));
  EXPECT_FALSE(reason.timed());
  EXPECT_TRUE(reason.Timed(true).timed());
  EXPECT_EQ(reason.Timed(true).object(), reason.object());
  EXPECT_EQ(reason.Timed(true).kind(), reason.kind());
  EXPECT_EQ(WaitReason().kind(), WaitKind::kNone);
  EXPECT_EQ(WaitReason::FromWord(reinterpret_cast<std::uintptr_t>(&object)).kind(), WaitKind::kNone);
  EXPECT_EQ(WaitReason::OfDescriptor(WaitKind::kReadable, 7).object(), 7u);
}

}  // namespace
}  // namespace weft::observe
