// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "weft/fiber/fiber.h"
#include "weft/io/fiber_blocking.h"

#include "io/blocking_fixture.h"

namespace weft::io {
namespace {

class FileTest : public BlockingTest {
 protected:
  FileTest() {
    std::string name = ::testing::TempDir() + "weft_file_XXXXXX";
    const int fd = ::mkstemp(name.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  ~FileTest() override { ::unlink(path_.c_str()); }

  std::string path_;
};
WEFT_INSTANTIATE_BLOCKING(FileTest);

TEST_P(FileTest, WhatIsWrittenIsRead) {
  InFiber([&] {
    for (const std::size_t size : {0UL, 1UL, 65536UL, 65537UL, 1'000'000UL}) {
      std::string data(size, 'x');
      if (size > 0) data.back() = '\0';
      EXPECT_FALSE(WriteFile(path_, data));
      const ReadFileResult read = ReadFile(path_);
      EXPECT_FALSE(read.error);
      EXPECT_TRUE(read.data == data) << size;
    }
    EXPECT_FALSE(WriteFile(path_, "short"));
    EXPECT_EQ(ReadFile(path_).data, "short") << "what was there before is gone";
  });
}

TEST_P(FileTest, TheDiskWorksOutsideOfTheWorkers) {
  InFiber([&] {
    const auto before = GetFiberBlockingCounts().calls;
    EXPECT_FALSE(WriteFile(path_, "a"));
    EXPECT_EQ(ReadFile(path_).data, "a");
    EXPECT_EQ(GetFiberBlockingCounts().calls, before + 2);
  });
}

TEST_P(FileTest, APlainThreadMayReadToo) {
  EXPECT_FALSE(WriteFile(path_, "thread"));
  EXPECT_EQ(ReadFile(path_).data, "thread");
}

TEST_P(FileTest, AFileThatDoesNotSayItsSizeIsReadToItsEnd) {
  InFiber([&] {
    const ReadFileResult read = ReadFile("/proc/self/status");
    EXPECT_FALSE(read.error);
    EXPECT_NE(read.data.find("Threads:"), std::string::npos);
  });
}

TEST_P(FileTest, ErrorsAreThoseOfTheSystem) {
  InFiber([&] {
    EXPECT_EQ(ReadFile(path_ + ".not_there").error, std::errc::no_such_file_or_directory);
    EXPECT_EQ(ReadFile(::testing::TempDir()).error, std::errc::is_a_directory);
    EXPECT_EQ(WriteFile(path_ + "/below_a_file", "x"), std::errc::not_a_directory);
    EXPECT_EQ(WriteFile("/dev/full", "x"), std::errc::no_space_on_device);
    EXPECT_FALSE(WriteFile(path_, "12345"));
    EXPECT_EQ(ReadFile(path_, 4).error, std::errc::file_too_large);
    EXPECT_EQ(ReadFile(path_, 5).data, "12345");
    EXPECT_EQ(ReadFile("/dev/zero", 100'000).error, std::errc::file_too_large) << "it has no end";
    EXPECT_TRUE(ReadFile(path_, 4).data.empty());
  });
}

TEST_P(FileTest, TheModeOfANewFileIsTheCallers) {
  InFiber([&] {
    ::unlink(path_.c_str());
    EXPECT_FALSE(WriteFile(path_, "secret", 0600));
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  });
}

TEST_P(FileTest, PositionsAreReadAndWrittenWithoutTheDescriptorsOwn) {
  InFiber([&] {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(PWrite(fd, "0123456789", 10, 5).bytes, 10U);
    char buffer[20] = {};
    IoResult read = PRead(fd, buffer, 4, 8);
    EXPECT_FALSE(read.error);
    EXPECT_EQ(std::string(buffer, read.bytes), "3456");
    read = PRead(fd, buffer, sizeof(buffer), 12);
    EXPECT_FALSE(read.error);
    EXPECT_EQ(std::string(buffer, read.bytes), "789") << "fewer at the end";
    EXPECT_EQ(PRead(fd, buffer, 1, 15).bytes, 0U);
    EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), 0);
    ::close(fd);
    EXPECT_EQ(PRead(-1, buffer, 1, 0).error, std::errc::bad_file_descriptor);
    EXPECT_EQ(PWrite(-1, buffer, 1, 0).error, std::errc::bad_file_descriptor);
  });
}

}  // namespace
}  // namespace weft::io
