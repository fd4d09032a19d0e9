// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "weft/fiber/runtime.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class RuntimeFlagsTest : public ::testing::Test {
 protected:
  static void Set(const std::string& flag, const std::string& value) {
    ASSERT_FALSE(gflags::SetCommandLineOption(flag.c_str(), value.c_str()).empty()) << flag << "=" << value;
  }
  static RuntimeOptions Read() {
    RuntimeOptions options;
    EXPECT_EQ(ReadFlags(&options), std::nullopt);
    return options;
  }

 private:
  const gflags::FlagSaver saver_;
};

TEST_F(RuntimeFlagsTest, TheDefaultsAreThoseOfOptions) { EXPECT_EQ(Read(), RuntimeOptions()); }

TEST_F(RuntimeFlagsTest, EachFlagFillsItsField) {
  Set("fiber_concurrency_hint", "12");
  Set("fiber_groups", "latency:6,batch:2");
  Set("fiber_scheduling_group_size", "6");
  Set("fiber_numa_aware", "off");
  Set("fiber_worker_accessible_cpus", "0-4,6,7");
  Set("fiber_worker_disallow_cpu_migration", "true");
  Set("fiber_scheduling_name", "v2");
  Set("fiber_work_stealing_ratio", "3");
  Set("fiber_cross_numa_work_stealing_ratio", "4");
  Set("fiber_run_queue_size", "1024");
  Set("fiber_stack_size", "65536");
  Set("fiber_stack_enable_guard_page", "false");
  Set("fiber_stack_guard_size", "8192");
  Set("fiber_stack_pool_size", "77");
  Set("fiber_record_stack_every", "78");
  Set("fiber_blocking_threads", "5");
  Set("fiber_blocking_queue_size", "6");
  Set("fiber_blocking_idle_timeout_ms", "7");
  Set("fiber_topology", "numa:2 core:2 pu:1");
  Set("fiber_start_timeout_ms", "8");
  Set("fiber_terminate_timeout_ms", "9");
  Set("fiber_limit_ready_wait_ms", "10");
  Set("fiber_limit_fibers", "11");
  Set("fiber_stall_warning_ms", "12");
  Set("fiber_slice_warning_ms", "13");
  Set("fiber_slice_error_ms", "14");
  Set("fiber_dump_signal", "USR2");
  Set("fiber_dump_on_crash", "false");
  Set("fiber_recorder", "full");
  const RuntimeOptions options = Read();
  EXPECT_EQ(options.concurrency_hint, 12);
  EXPECT_EQ(options.groups, "latency:6,batch:2");
  EXPECT_EQ(options.scheduling_group_size, 6);
  EXPECT_EQ(options.numa_aware, NumaAware::kOff);
  EXPECT_EQ(options.worker_accessible_cpus, "0-4,6,7");
  EXPECT_TRUE(options.worker_disallow_cpu_migration);
  EXPECT_EQ(options.scheduling_name, "v2");
  EXPECT_EQ(options.work_stealing_ratio, 3);
  EXPECT_EQ(options.cross_numa_work_stealing_ratio, 4);
  EXPECT_EQ(options.run_queue_size, 1024);
  EXPECT_EQ(options.stack_size, 65536);
  EXPECT_FALSE(options.stack_enable_guard_page);
  EXPECT_EQ(options.stack_guard_size, 8192);
  EXPECT_EQ(options.stack_pool_size, 77);
  EXPECT_EQ(options.record_stack_every, 78);
  EXPECT_EQ(options.blocking_threads, 5);
  EXPECT_EQ(options.blocking_queue_size, 6);
  EXPECT_EQ(options.blocking_idle_timeout, 7ms);
  EXPECT_EQ(options.topology, "numa:2 core:2 pu:1");
  EXPECT_EQ(options.start_timeout, 8ms);
  EXPECT_EQ(options.terminate_timeout, 9ms);
  EXPECT_EQ(options.limit_ready_wait, 10ms);
  EXPECT_EQ(options.limit_fibers, 11);
  EXPECT_EQ(options.stall_warning, 12ms);
  EXPECT_EQ(options.slice_warning, 13ms);
  EXPECT_EQ(options.slice_error, 14ms);
  EXPECT_EQ(options.dump_signal, "USR2");
  EXPECT_FALSE(options.dump_on_crash);
  EXPECT_EQ(options.recorder, RecorderLevel::kFull);
}

TEST_F(RuntimeFlagsTest, NegativeNumbersArriveAsThatAndAreRefused) {
  Set("fiber_concurrency_hint", "-3");
  const std::optional<std::string> line = ValidateOptions(Read());
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->starts_with("--fiber_concurrency_hint=-3: must be in 0..")) << *line;
}

TEST_F(RuntimeFlagsTest, AWordThatIsNoValueIsRefusedWithOneLine) {
  Set("fiber_numa_aware", "perhaps");
  RuntimeOptions options;
  EXPECT_EQ(ReadFlags(&options), "--fiber_numa_aware=perhaps: must be auto, on or off");
  Set("fiber_numa_aware", "auto");
  Set("fiber_recorder", "loud");
  EXPECT_EQ(ReadFlags(&options), "--fiber_recorder=loud: must be off, sampled or full");
}

class FlagFileTest : public RuntimeFlagsTest {
 protected:
  ~FlagFileTest() override {
    for (const std::string& path : written_) std::remove(path.c_str());
  }
  std::string Write(const std::string& name, const std::string& text) {
    written_.push_back(::testing::TempDir() + "weft_" + std::to_string(getpid()) + "_" + name);
    std::ofstream(written_.back()) << text;
    return written_.back();
  }

 private:
  std::vector<std::string> written_;
};

TEST_F(FlagFileTest, WhatGflagsUnderstandsIsAccepted) {
  const std::string inner = Write("inner.flags", "--fiber_stack_size=65536\n");
  EXPECT_EQ(CheckFlagFile(Write("good.flags",
                                "# a comment\n\n  --fiber_stack_size=65536\r\n-fiber_scheduling_name=v2\n"
                                "--nofiber_stack_enable_guard_page\n--fiber_worker_disallow_cpu_migration\n"
                                "--undefok=of_another\n--of_another=1\n--flagfile=" +
                                    inner + "\nsome_other_program another*\n--its_own_flag=1\n")),
            std::nullopt);
}

TEST_F(FlagFileTest, AnUnknownFlagIsRefusedWithFileAndLine) {
  const std::string path = Write("typo.flags", "# one\n--fiber_stack_size=65536\n--fiber_stak_size=65536\n");
  EXPECT_EQ(CheckFlagFile(path), path + ":3: unknown flag --fiber_stak_size");
}

TEST_F(FlagFileTest, AnUnknownFlagInAFileThatAFileNamesIsRefusedWithThatFile) {
  const std::string inner = Write("inner.flags", "\n--nonsense=1\n");
  EXPECT_EQ(CheckFlagFile(Write("outer.flags", "--flagfile=" + inner + "\n")), inner + ":2: unknown flag --nonsense");
}

TEST_F(FlagFileTest, AFlagWithoutDashesIsNotTakenForAProgram) {
  const std::string path = Write("dashes.flags", "fiber_stack_size=65536\n");
  EXPECT_EQ(CheckFlagFile(path), path + ":1: \"fiber_stack_size=65536\" is no flag: a flag begins with --");
  const std::string space = Write("space.flags", "--fiber_stack_size=65536\nfiber_stack_size 65536\n");
  EXPECT_EQ(CheckFlagFile(space), space + ":2: \"fiber_stack_size 65536\" is no flag: a flag begins with --");
}

TEST_F(FlagFileTest, AFlagWithoutItsValueIsRefused) {
  const std::string path = Write("value.flags", "--fiber_stack_size 65536\n--fiber_stack_size\n");
  EXPECT_EQ(CheckFlagFile(path), path + ":1: unknown flag --fiber_stack_size 65536");
  const std::string none = Write("none.flags", "--fiber_stack_size\n");
  EXPECT_EQ(CheckFlagFile(none), none + ":1: --fiber_stack_size has no value: --fiber_stack_size=<value>");
}

TEST_F(FlagFileTest, FilesThatNameEachOtherEnd) {
  const std::string path = ::testing::TempDir() + "weft_" + std::to_string(getpid()) + "_self.flags";
  const std::optional<std::string> what = CheckFlagFile(Write("self.flags", "--flagfile=" + path + "\n"));
  ASSERT_TRUE(what.has_value());
  EXPECT_NE(what->find("deep"), std::string::npos) << *what;
}

TEST_F(FlagFileTest, AFileThatIsNotThereIsRefused) {
  EXPECT_EQ(CheckFlagFile("/no/such.flags"), "/no/such.flags: the flag file cannot be read");
}

TEST_F(RuntimeFlagsTest, ABadFlagEndsTheProcessByExitCodeTwoAndOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Set("fiber_stack_size", "7");
        StartRuntime();
      },
      ::testing::ExitedWithCode(2), "^StartRuntime: --fiber_stack_size=7: must be in [^\n]*\n$");
}

// This program has the layers up to fiber only.
TEST_F(RuntimeFlagsTest, ADumpIsRefusedWithoutTheLayerThatMakesIt) {
  RuntimeOptions options;
  options.dump_signal = "USR2";
  std::string error;
  EXPECT_FALSE(TryStartRuntime(options, &error));
  EXPECT_EQ(error,
            "--fiber_dump_signal=USR2: must be empty: this program is linked without weft::observe, which makes dumps");
}

// The flag files that come with Weft: each can be used, and default.flags has every flag.

std::string ConfFile(const std::string& name) { return std::string(WEFT_CONF_DIR) + "/" + name; }

TEST_F(RuntimeFlagsTest, EachFlagFileCanBeUsed) {
  for (const char* name : {"default.flags", "low_latency.flags", "throughput.flags", "numa.flags"}) {
    const gflags::FlagSaver saver;
    ASSERT_TRUE(gflags::ReadFromFlagsFile(ConfFile(name), "", /*errors_are_fatal=*/true)) << name;
    EXPECT_EQ(ValidateOptions(Read()), std::nullopt) << name;
  }
}

TEST_F(RuntimeFlagsTest, DefaultFlagsHasEveryFlagWithItsDefault) {
  ASSERT_TRUE(gflags::ReadFromFlagsFile(ConfFile("default.flags"), "", /*errors_are_fatal=*/true));
  EXPECT_EQ(Read(), RuntimeOptions());

  std::set<std::string> in_file;
  std::ifstream file(ConfFile("default.flags"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("--")) in_file.insert(line.substr(2, line.find('=') - 2));
  }
  std::set<std::string> in_program;
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const auto& flag : flags) {
    if (flag.name.starts_with("fiber_")) in_program.insert(flag.name);
  }
  EXPECT_EQ(in_file, in_program);
}

// The range is the one that a refusal states.
TEST_F(RuntimeFlagsTest, EachNumbersHelpSaysItsRangeAndUnit) {
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  int numbers = 0;
  for (const auto& flag : flags) {
    if (!flag.name.starts_with("fiber_") || flag.type != "int64") continue;
    SCOPED_TRACE(flag.name);
    ++numbers;
    const gflags::FlagSaver saver;
    Set(flag.name, "-2");
    const std::string refusal = ValidateOptions(Read()).value_or("");
    const std::regex range("-?[0-9]+\\.\\.[0-9]+");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(refusal, found, range)) << refusal;
    EXPECT_NE(flag.description.find(" " + found.str() + "."), std::string::npos)
        << flag.description << " does not say " << found.str();
    if (flag.name.ends_with("_ms")) {
      EXPECT_NE(flag.description.find("In ms, "), std::string::npos);
    }
  }
  EXPECT_GT(numbers, 10);
}

TEST_F(RuntimeFlagsTest, EachLineOfAFlagFileHasItsReason) {
  for (const char* name : {"default.flags", "low_latency.flags", "throughput.flags", "numa.flags"}) {
    std::ifstream file(ConfFile(name));
    bool reasoned = false;
    for (std::string line; std::getline(file, line);) {
      if (line.empty()) reasoned = false;
      if (line.starts_with("#")) reasoned = true;
      EXPECT_TRUE(reasoned || !line.starts_with("--")) << name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace weft::fiber
