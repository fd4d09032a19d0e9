// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/memory_reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

namespace weft::observe {
namespace {

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Both ways.
class MemoryReaderTest : public ::testing::TestWithParam<bool> {
 protected:
  MemoryReader reader_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(ByProc, MemoryReaderTest, ::testing::Bool());

TEST_P(MemoryReaderTest, CopiesInOrder) {
  const std::array<int, 3> from{1, 2, 3};
  std::array<int, 3> to{};
  const std::array<MemoryReader::Part, 2> parts{MemoryReader::Part{&to[0], Address(&from[0]), sizeof(int)},
                                                MemoryReader::Part{&to[1], Address(&from[1]), 2 * sizeof(int)}};
  EXPECT_TRUE(reader_.Read(parts));
  EXPECT_EQ(to, from);
}

TEST_P(MemoryReaderTest, MemoryThatIsNotThereIsFalse) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  char* const end = static_cast<char*>(pages) + page;
  ASSERT_EQ(::munmap(end, page), 0);
  std::memcpy(end - 3, "abc", 3);
  std::array<char, 8> to{};
  EXPECT_TRUE(reader_.Read(to.data(), Address(end - 3), 3));
  EXPECT_FALSE(reader_.Read(to.data(), Address(end - 3), 4));
  EXPECT_FALSE(reader_.Read(to.data(), Address(end), 1));
  EXPECT_FALSE(reader_.Read(to.data(), 0, 1));
  EXPECT_EQ(reader_.ReadString(Address(end - 3), 100), "abc") << "as far as it is there";
  EXPECT_EQ(reader_.ReadString(Address(end), 100), "");
  ::munmap(pages, page);
}

TEST_P(MemoryReaderTest, AStringEndsAtItsZeroOrAtTheLimit) {
  const std::string text(100, 'x');
  EXPECT_EQ(reader_.ReadString(Address(text.c_str()), 1000), text);
  EXPECT_EQ(reader_.ReadString(Address(text.c_str()), 70), text.substr(0, 70));
}

}  // namespace
}  // namespace weft::observe
