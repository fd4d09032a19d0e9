// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/net/resolver.h"

#include "io/blocking_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class ResolveTest : public BlockingTest {};
WEFT_INSTANTIATE_BLOCKING(ResolveTest);

std::vector<std::string> Texts(const ResolveResult& result) {
  std::vector<std::string> texts;
  for (const SocketAddress& address : result.addresses) texts.push_back(address.ToString());
  return texts;
}

TEST_P(ResolveTest, AddressesAreTakenAsTheyAre) {
  InFiber([] {
    EXPECT_EQ(Texts(ResolveHost("127.0.0.1", "8080")), std::vector<std::string>{"127.0.0.1:8080"});
    EXPECT_EQ(Texts(ResolveHost("::1", "1", 1h)), std::vector<std::string>{"[::1]:1"});
    EXPECT_EQ(Texts(ResolveHost("10.1.2.3", "")), std::vector<std::string>{"10.1.2.3:0"});
    EXPECT_EQ(Texts(ResolveHost("10.1.2.3", "1", {})), std::vector<std::string>{"10.1.2.3:1"});
    EXPECT_EQ(Texts(ResolveHost("10.1.2.3", "1", {}, 1h)), std::vector<std::string>{"10.1.2.3:1"});
    EXPECT_EQ(Texts(ResolveHost("10.1.2.3", "1", ResolveOptions(), {})), std::vector<std::string>{"10.1.2.3:1"});
  });
}

TEST_P(ResolveTest, TheLocalHostHasALoopbackAddress) {
  InFiber([] {
    const ResolveResult result = ResolveHost("localhost", "80", {.family = AF_INET});
    ASSERT_TRUE(result.ok()) << result.error.message();
    EXPECT_EQ(std::count(result.addresses.begin(), result.addresses.end(), SocketAddress::LoopbackIpv4(80)), 1);
  });
}

TEST_P(ResolveTest, ErrorsSayWhatTheCLibrarySays) {
  InFiber([] {
    const ResolveResult service = ResolveHost("127.0.0.1", "there is no such service");
    EXPECT_EQ(service.error, std::error_code(EAI_SERVICE, ResolveCategory()));
    EXPECT_EQ(service.error.message(), ::gai_strerror(EAI_SERVICE));
    EXPECT_TRUE(service.addresses.empty());
    EXPECT_FALSE(ResolveHost("127.0.0.1", "80", {.family = AF_INET6}).ok());
    EXPECT_EQ(ResolveHost("127.0.0.1", "80", {.family = 12345}).error, std::error_code(EAI_FAMILY, ResolveCategory()));
  });
  EXPECT_EQ(std::error_code(EAI_AGAIN, ResolveCategory()), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(std::error_code(EAI_MEMORY, ResolveCategory()), std::errc::not_enough_memory);
  EXPECT_STREQ(ResolveCategory().name(), "resolve");
}

TEST_P(ResolveTest, ACallThatNeedNotWaitSucceedsThoughItsTimeIsOver) {
  InFiber([] { EXPECT_TRUE(ResolveHost("127.0.0.1", "80", 0s).ok()); });
  EXPECT_TRUE(ResolveHost("127.0.0.1", "80", 0s).ok());
}

}  // namespace
}  // namespace weft::io
