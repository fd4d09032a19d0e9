// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "weft/tests/base/temporary_folder.h"

namespace weft::numa {
namespace {

constexpr char kV2Mount[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mount[] =
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

// A directory that looks like / to the reader of control groups.
class Cgroup : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void WriteProc(const std::string& cgroup, const std::string& mountinfo) {
    Write("/proc/self/cgroup", cgroup);
    Write("/proc/self/mountinfo", "23 1 0:21 / /sys rw - sysfs sysfs rw\n" + mountinfo);
  }
  std::optional<double> Quota() { return ReadCpuQuota(root_.path()); }
  TemporaryFolder root_;
};

TEST_F(Cgroup, NothingThatCanBeReadIsNoLimit) { EXPECT_EQ(Quota(), std::nullopt); }

TEST_F(Cgroup, Version2ReadsItsGroup) {
  WriteProc("0::/app\n", kV2Mount);
  Write("/sys/fs/cgroup/app/cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota(), 1.5);
}

TEST_F(Cgroup, TheSmallestMemoryLimitCounts) {
  EXPECT_EQ(ReadMemoryLimit(root_.path()), std::nullopt);
  WriteProc("0::/a/b\n4:memory:/c\n", std::string(kV2Mount) + kV1Mount);
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(ReadMemoryLimit(root_.path()), std::nullopt);
  Write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  EXPECT_EQ(ReadMemoryLimit(root_.path()), 1073741824.0);
  Write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(ReadMemoryLimit(root_.path()), 1048576.0);
}

TEST_F(Cgroup, Version2MaxIsNoLimit) {
  WriteProc("0::/app\n", kV2Mount);
  Write("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(Cgroup, TheSmallestQuotaOfTheNestedGroupsCounts) {
  WriteProc("0::/a/b/c\n", kV2Mount);
  Write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  EXPECT_EQ(Quota(), 2.0);
}

TEST_F(Cgroup, AGroupBesideOursDoesNotCount) {
  WriteProc("0::/a/b\n", kV2Mount);
  Write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/a/other/cpu.max", "100000 100000\n");
  EXPECT_EQ(Quota(), 4.0);
}

TEST_F(Cgroup, InACgroupNamespaceTheGroupIsTheMountPointItself) {
  WriteProc("0::/\n", kV2Mount);
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(Quota(), 0.5);
}

TEST_F(Cgroup, InAContainerWithoutNamespaceThePathOfTheHostIsCutByTheRootOfTheMount) {
  WriteProc("0::/docker/0abc/inner\n", "30 23 0:26 /docker/0abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  Write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/inner/cpu.max", "250000 100000\n");
  EXPECT_EQ(Quota(), 2.5);
}

TEST_F(Cgroup, TheRootOfTheMountIsCutAtAWholeNameOnly) {
  WriteProc("0::/docker/0abcdef\n", "30 23 0:26 /docker/0abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  Write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/def/cpu.max", "100000 100000\n");
  EXPECT_EQ(Quota(), 3.0);
}

TEST_F(Cgroup, AGroupOutsideOfOurNamespaceLeavesWhatIsMounted) {
  WriteProc("0::/../sibling\n", kV2Mount);
  Write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Quota(), 3.0);
}

TEST_F(Cgroup, Version1ReadsQuotaAndPeriod) {
  WriteProc("5:memory:/x\n4:cpu,cpuacct:/a/b\n", kV1Mount);
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "20000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), 2.5);
}

TEST_F(Cgroup, Version1MinusOneIsNoLimit) {
  WriteProc("4:cpu,cpuacct:/\n", kV1Mount);
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(Cgroup, OfBothVersionsAtOnceTheSmallerQuotaCounts) {
  WriteProc("4:cpu,cpuacct:/a\n0::/b\n",
            std::string(kV1Mount) + "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), 3.0);
  Write("/sys/fs/cgroup/unified/b/cpu.max", "100000 100000\n");
  EXPECT_EQ(Quota(), 1.0);
}

TEST_F(Cgroup, CpusetIsNotTakenForCpu) {
  WriteProc("4:cpuset:/a\n", "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  Write("/sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "100000\n");
  Write("/sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(Cgroup, ReadsMountPointsWithEscapedSpaces) {
  WriteProc("0::/a\n", "30 23 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/c group/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota(), 1.5);
}

TEST_F(Cgroup, ReadsGroupsWithAColonInTheirName) {
  WriteProc("0::/a:b\n", kV2Mount);
  Write("/sys/fs/cgroup/a:b/cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota(), 1.5);
}

TEST_F(Cgroup, GarbageIsNoLimit) {
  WriteProc("x\n0::/a\n", std::string("garbage\n") + kV2Mount);
  for (const char* text : {"", "abc 100000", "100000", "100000 0", "-5 100000", "100000 abc"}) {
    Write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(Quota(), std::nullopt) << text;
  }
}

TEST(CgroupOfThisMachine, CanBeRead) {
  const auto quota = ReadCpuQuota();
  if (quota) {
    EXPECT_GT(*quota, 0);
  }
}

}  // namespace
}  // namespace weft::numa
