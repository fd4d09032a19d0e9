// A folder of one test's own, removed with all that is in it. Programs run beside each other (one test under two
// policies, say), so a file of a fixed name is read half written by one while another writes it.

#ifndef WEFT_TESTS_BASE_TEMPORARY_FOLDER_H_
#define WEFT_TESTS_BASE_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace weft {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(::testing::TempDir() + "weft_XXXXXX") { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    EXPECT_FALSE(error) << path_ << ": " << error.message();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file and returns its path.
  std::string Write(std::string_view name, std::string_view text) const {
    const std::string path = path_ + '/' + std::string(name);
    std::ofstream(path) << text;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace weft

#endif  // WEFT_TESTS_BASE_TEMPORARY_FOLDER_H_
