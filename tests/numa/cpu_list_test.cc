// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/cpu_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::numa {
namespace {

using Ids = std::vector<int>;

TEST(CpuList, ReadsNumbersAndRanges) {
  EXPECT_EQ(ParseCpuList("0-4,6,7"), Ids({0, 1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(ParseCpuList("5"), Ids({5}));
  EXPECT_EQ(ParseCpuList("3-3"), Ids({3}));
}

TEST(CpuList, IgnoresSpaceAndTheNewlineOfKernelFiles) { EXPECT_EQ(ParseCpuList(" 0 - 1 , 4\n"), Ids({0, 1, 4})); }

TEST(CpuList, SortsAndDropsDuplicates) { EXPECT_EQ(ParseCpuList("7,0-2,1,7"), Ids({0, 1, 2, 7})); }

TEST(CpuList, SaysInOneLineWhatIsWrong) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"", "it is empty"},
      {" \n", "it is empty"},
      {"1,", "a number is missing"},
      {",1", "a number is missing"},
      {"1,,2", "a number is missing"},
      {"-", "a number is missing"},
      {"4-", "a number is missing"},
      {"-4", "a number is missing"},
      {"a", "'a' is no number"},
      {"1x", "'1x' is no number"},
      {"0x4", "'0x4' is no number"},
      {"1-2-3", "'2-3' is no number"},
      {"1 2", "'1 2' is no number"},
      {"4-1", "'4-1' runs backwards"},
      {"65536", "'65536' is above 65535"},
      {"0-99999999999999999999", "'99999999999999999999' is above 65535"},
  };
  for (const auto& test : cases) {
    std::string error;
    EXPECT_FALSE(ParseCpuList(test.text, &error).has_value()) << test.text;
    EXPECT_NE(error.find("bad CPU list \"" + std::string(test.text) + "\""), std::string::npos) << error;
    EXPECT_NE(error.find(test.expected), std::string::npos) << error;
    EXPECT_FALSE(ParseCpuList(test.text).has_value());
  }
}

TEST(CpuList, WritesRunsOfThreeAndMoreAsRanges) {
  EXPECT_EQ(FormatCpuList(Ids({0, 1, 2, 3, 4, 6, 7})), "0-4,6,7");
  EXPECT_EQ(FormatCpuList(Ids({})), "");
  EXPECT_EQ(FormatCpuList(Ids({9})), "9");
}

TEST(CpuList, ReadsBackWhatItWrote) {
  for (const char* text : {"0", "0-63", "0,2,4,6", "1,2,4-6,100-200,65535"}) {
    EXPECT_EQ(FormatCpuList(*ParseCpuList(text)), text);
  }
}

}  // namespace
}  // namespace weft::numa
