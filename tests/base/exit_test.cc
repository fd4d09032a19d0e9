// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/exit.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace weft::base {
namespace {

std::string& Events() {
  static auto* const events = new std::string;
  return *events;
}

constinit ThreadEnd append_at_end([](void* what) { Events() += static_cast<const char*>(what); });
char first[] = "first ";
char second[] = "second ";

struct WithTheThread {
  ~WithTheThread() {
    Events() += "thread_local ";
    if (arms) append_at_end.Arm(second);
  }
  bool arms = false;
};

TEST(ThreadEnd, TheFunctionRunsAfterTheThreadLocals) {
  Events().clear();
  std::thread([] {
    EXPECT_TRUE(append_at_end.Arm(first));
    thread_local WithTheThread with_the_thread;
    with_the_thread.arms = false;
  }).join();
  EXPECT_EQ(Events(), "thread_local first ");
}

TEST(ThreadEnd, TheLastArgumentCounts) {
  Events().clear();
  std::thread([] {
    append_at_end.Arm(first);
    append_at_end.Arm(second);
  }).join();
  EXPECT_EQ(Events(), "second ");
}

TEST(ThreadEnd, AThreadLocalsDestructorMayArmIt) {
  Events().clear();
  std::thread([] {
    thread_local WithTheThread with_the_thread;
    with_the_thread.arms = true;
  }).join();
  EXPECT_EQ(Events(), "thread_local second ");
}

// Arms itself again, as a destructor that uses the library again does.
constinit ThreadEnd twice([](void* what) {
  Events() += static_cast<const char*>(what);
  if (what == first) append_at_end.Arm(second);
});

TEST(ThreadEnd, AnotherThreadEndMayArmIt) {
  Events().clear();
  std::thread([] {
    append_at_end.Arm(first);
    twice.Arm(first);
  }).join();
  EXPECT_EQ(Events(), "first first second ");
}

TEST(ThreadEnd, WhoDoesNotArmItHasNothingToDo) {
  Events().clear();
  std::thread([] {}).join();
  EXPECT_EQ(Events(), "");
}

// --- Libraries whose functions are called when threads end ---

// Of the C library's, which this program does not use. nullptr: it is not loaded.
void* LoadedLibrary() { return ::dlopen("libBrokenLocale.so.1", RTLD_LAZY | RTLD_NOLOAD); }

TEST(PinLibrary, APinnedOneStaysWhenItIsUnloaded) {
  for (const bool pins : {false, true}) {
    void* const library = ::dlopen("libBrokenLocale.so.1", RTLD_LAZY);
    if (library == nullptr) GTEST_SKIP() << "this system does not have it";
    void* const function = ::dlsym(library, "__ctype_get_mb_cur_max");
    ASSERT_NE(function, nullptr);
    if (pins) {
      EXPECT_TRUE(PinLibraryOf(function));
    }
    EXPECT_EQ(::dlclose(library), 0);
    void* const still_there = LoadedLibrary();
    EXPECT_EQ(still_there != nullptr, pins);
    if (still_there != nullptr) ::dlclose(still_there);
  }
}

TEST(PinLibrary, TheProgramItselfStaysAnyway) {
  static int here = 0;
  EXPECT_TRUE(PinLibraryOf(&here));
  const auto on_heap = std::make_unique<int>();
  EXPECT_FALSE(PinLibraryOf(on_heap.get()));
}

// Ends the process with 10 if it is destroyed inside exit(), else with 11.
struct TellsByExitCode {
  ~TellsByExitCode() { _exit(IsInExit() ? 10 : 11); }
};

TEST(ProcessExit, IsNoticedInTheDestructorOfAStaticObject) {
  EXPECT_EXIT(
      {
        static TellsByExitCode object;
        std::exit(0);
      },
      ::testing::ExitedWithCode(10), "");
}

TEST(ProcessExit, IsNoticedInWhatAStaticObjectOwns) {
  EXPECT_EXIT(
      {
        static const auto object = std::make_unique<TellsByExitCode>();
        std::exit(0);
      },
      ::testing::ExitedWithCode(10), "");
}

TEST(ProcessExit, IsNotTakenForAnOrdinaryDestructor) {
  EXPECT_EXIT({ const TellsByExitCode object; }, ::testing::ExitedWithCode(11), "");
}

}  // namespace
}  // namespace weft::base
