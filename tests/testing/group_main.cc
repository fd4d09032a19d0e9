// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// main() of a program that holds the tests of several files (weft_add_tests() in cmake/WeftLayer.cmake).
//
// The name by which the program is called chooses the file: bin/sync_fiber_mutex is a link to such a program, and runs
// the tests of fiber_mutex_test.cc alone. So each file has a process of its own, as if it were a program of its own.
// --gtest_filter chooses among the tests of that file.

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace weft::testing {
namespace {

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// `patterns` is a list of globs, separated by colons: a half of --gtest_filter.
bool MatchesOneOf(const std::string& test, std::string_view patterns) {
  while (!patterns.empty()) {
    const std::string pattern(patterns.substr(0, patterns.find(':')));
    if (::fnmatch(pattern.c_str(), test.c_str(), 0) == 0) return true;
    patterns.remove_prefix(std::min(patterns.size(), pattern.size() + 1));
  }
  return false;
}

// As GoogleTest reads it: "<patterns>-<patterns that are left out>".
bool PassesFilter(const std::string& test, std::string_view filter) {
  const std::size_t dash = filter.find('-');
  const std::string_view wanted = filter.substr(0, dash);
  const std::string_view unwanted = dash == std::string_view::npos ? "" : filter.substr(dash + 1);
  return (wanted.empty() || MatchesOneOf(test, wanted)) && !MatchesOneOf(test, unwanted);
}

// tests/sync/fiber_mutex_test.cc: sync_fiber_mutex.
std::string ProgramOf(std::string path) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos) path[slash] = '_';
  const std::string_view name = FileName(path);
  return std::string(name.substr(0, name.rfind("_test.cc")));
}

std::vector<const ::testing::TestInfo*> TestsOf(std::string_view program) {
  std::vector<const ::testing::TestInfo*> tests;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const ::testing::TestInfo* test = suite.GetTestInfo(t);
      if (ProgramOf(test->file()) == program) tests.push_back(test);
    }
  }
  return tests;
}

// The names of those that pass the user's filter, as a filter; "-*" if there is none.
std::string NamesOf(const std::vector<const ::testing::TestInfo*>& tests, const std::string& filter) {
  std::string names;
  for (const ::testing::TestInfo* test : tests) {
    const std::string name = std::string(test->test_suite_name()) + "." + test->name();
    if (PassesFilter(name, filter)) names += (names.empty() ? "" : ":") + name;
  }
  return names.empty() ? "-*" : names;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  const std::string called(weft::testing::FileName(argv[0]));
  ::testing::InitGoogleTest(&argc, argv);
  const auto tests = weft::testing::TestsOf(called);
  if (tests.empty()) {
    std::fprintf(stderr, "%s holds the tests of several files: call it by a link that names one, <layer>_<file>\n",
                 argv[0]);
    return 2;
  }
  GTEST_FLAG_SET(filter, weft::testing::NamesOf(tests, GTEST_FLAG_GET(filter)));
  return RUN_ALL_TESTS();
}
