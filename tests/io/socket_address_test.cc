// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket_address.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "testing/patience.h"

namespace weft::io {
namespace {

TEST(SocketAddress, TextComesBackAsItWas) {
  for (const char* text : {"0.0.0.0:0", "127.0.0.1:8080", "255.255.255.255:65535", "[::]:0", "[::1]:8080",
                           "[fe80::1%1]:53", "[2001:db8::8:800:200c:417a]:65535", "[::ffff:192.0.2.1]:1",
                           "unix:/run/x.sock", "unix:relative/path", "unix:@abstract", "unix:@", "unix:/with:colon"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->ToString(), text);
    EXPECT_EQ(SocketAddress::Parse(address->ToString()), address) << text;
  }
}

TEST(SocketAddress, FamilyPortAndBytesAreWhatTheTextSays) {
  const auto ipv4 = SocketAddress::Parse("1.2.3.4:258");
  ASSERT_TRUE(ipv4.has_value());
  EXPECT_EQ(ipv4->family(), AF_INET);
  EXPECT_EQ(ipv4->port(), 258);
  EXPECT_FALSE(ipv4->is_unix());
  ASSERT_EQ(ipv4->size(), sizeof(sockaddr_in));
  sockaddr_in in4;
  std::memcpy(&in4, ipv4->data(), sizeof(in4));
  EXPECT_EQ(ntohl(in4.sin_addr.s_addr), 0x01020304u);

  const auto ipv6 = SocketAddress::Parse("[::2]:80");
  ASSERT_TRUE(ipv6.has_value());
  EXPECT_EQ(ipv6->family(), AF_INET6);
  EXPECT_EQ(ipv6->port(), 80);
  ASSERT_EQ(ipv6->size(), sizeof(sockaddr_in6));

  const auto path = SocketAddress::Parse("unix:/x");
  ASSERT_TRUE(path.has_value());
  EXPECT_TRUE(path->is_unix());
  EXPECT_EQ(path->port(), 0);
  EXPECT_EQ(path->size(), offsetof(sockaddr_un, sun_path) + 3);  // With the zero.

  const auto abstract = SocketAddress::Parse("unix:@x");
  ASSERT_TRUE(abstract.has_value());
  EXPECT_EQ(abstract->size(), offsetof(sockaddr_un, sun_path) + 2);
  EXPECT_NE(*path, *abstract);
}

TEST(SocketAddress, AScopeMayBeAnInterfacesName) {
  const unsigned loopback = ::if_nametoindex("lo");
  if (loopback == 0) GTEST_SKIP() << "there is no interface lo";
  const auto by_name = SocketAddress::Parse("[fe80::1%lo]:1");
  ASSERT_TRUE(by_name.has_value());
  EXPECT_EQ(by_name, SocketAddress::Parse("[fe80::1%" + std::to_string(loopback) + "]:1"));
}

TEST(SocketAddress, WhatIsNoAddressIsRefused) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,
                                      ":"sv,
                                      "127.0.0.1"sv,
                                      "127.0.0.1:"sv,
                                      ":80"sv,
                                      "127.0.0.1:65536"sv,
                                      "127.0.0.1:-1"sv,
                                      "127.0.0.1:+1"sv,
                                      "127.0.0.1: 80"sv,
                                      "127.0.0.1:80 "sv,
                                      " 127.0.0.1:80"sv,
                                      "127.0.0.1:0x50"sv,
                                      "1.2.3:80"sv,
                                      "1.2.3.256:80"sv,
                                      "01.2.3.4.5:80"sv,
                                      "localhost:80"sv,
                                      "::1:80"sv,
                                      "[::1]"sv,
                                      "[::1]80"sv,
                                      "[::1:80"sv,
                                      "::1]:80"sv,
                                      "[]:80"sv,
                                      "[127.0.0.1]:80"sv,
                                      "[::1%]:80"sv,
                                      "[fe80::1%nosuchinterface]:80"sv,
                                      "[fe80::1%0]:80"sv,
                                      "[:::1]:80"sv,
                                      "unix:"sv,
                                      "unix"sv,
                                      "tcp:127.0.0.1:80"sv,
                                      "127.0.0.1:80:90"sv}) {
    EXPECT_FALSE(SocketAddress::Parse(text).has_value()) << text;
  }
}

TEST(SocketAddress, AUnixPathMayBeAsLongAsTheKernelTakes) {
  constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path);
  const std::string longest = "unix:" + std::string(kRoom - 1, 'p');
  ASSERT_TRUE(SocketAddress::Parse(longest).has_value());
  EXPECT_EQ(SocketAddress::Parse(longest)->ToString(), longest);
  EXPECT_FALSE(SocketAddress::Parse(longest + 'p').has_value());
  const std::string abstract = "unix:@" + std::string(kRoom - 1, 'p');
  ASSERT_TRUE(SocketAddress::Parse(abstract).has_value());
  EXPECT_EQ(SocketAddress::Parse(abstract)->ToString(), abstract);
  EXPECT_FALSE(SocketAddress::Parse(abstract + 'p').has_value());
}

TEST(SocketAddress, ASockaddrIsTakenIfItIsWhole) {
  const SocketAddress loopback = SocketAddress::LoopbackIpv4(80);
  EXPECT_EQ(loopback.ToString(), "127.0.0.1:80");
  EXPECT_EQ(SocketAddress::AnyIpv4(81).ToString(), "0.0.0.0:81");
  EXPECT_EQ(SocketAddress::FromSockaddr(loopback.data(), loopback.size()), loopback);
  EXPECT_FALSE(SocketAddress::FromSockaddr(loopback.data(), loopback.size() - 1).has_value());
  EXPECT_FALSE(SocketAddress::FromSockaddr(nullptr, 16).has_value());
  EXPECT_FALSE(SocketAddress::FromSockaddr(loopback.data(), 1).has_value());
  const sockaddr_storage strange{.ss_family = AF_APPLETALK, .__ss_padding = {}, .__ss_align = 0};
  EXPECT_FALSE(SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&strange), sizeof(strange)).has_value());
  EXPECT_FALSE(SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&strange), SocketAddress::kCapacity + 1)
                   .has_value());
}

TEST(SocketAddress, NoAddressSaysSo) {
  EXPECT_EQ(SocketAddress().family(), AF_UNSPEC);
  EXPECT_EQ(SocketAddress().ToString(), "(none)");
  EXPECT_EQ(SocketAddress(), SocketAddress());
  EXPECT_FALSE(SocketAddress::Parse("(none)").has_value());
  const sockaddr_un unnamed{.sun_family = AF_UNIX, .sun_path = {}};
  const auto local = SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&unnamed), sizeof(sa_family_t));
  ASSERT_TRUE(local.has_value());
  EXPECT_EQ(local->ToString(), "unix:");
}

// Whatever is accepted is written so that it is accepted as the same.
TEST(SocketAddress, RandomTextIsRefusedOrComesBack) {
  std::mt19937 random(1);
  constexpr std::string_view kLetters = "0123456789.:[]%abcdefunixlo/@ -";
  const std::string seeds[] = {"127.0.0.1:8080", "[fe80::1%1]:80", "unix:/run/x", "unix:@x"};
  int accepted = 0;
  const int tries = testing::Scaled(200'000);
  for (int i = 0; i < tries; ++i) {
    std::string text = seeds[random() % 4];
    for (unsigned changes = random() % 4; changes != 0; --changes) {
      const std::size_t at = random() % (text.size() + 1);
      const char letter = kLetters[random() % kLetters.size()];
      switch (random() % 3) {
        case 0:
          text.insert(at, 1, letter);
          break;
        case 1:
          if (at < text.size()) text.erase(at, 1);
          break;
        default:
          if (at < text.size()) text[at] = letter;
          break;
      }
    }
    const auto address = SocketAddress::Parse(text);
    if (!address.has_value()) continue;
    ++accepted;
    const std::string written = address->ToString();
    ASSERT_EQ(SocketAddress::Parse(written), address) << text << " was written as " << written;
  }
  EXPECT_GT(accepted, tries / 20);
}

// --- What went wrong ---

TEST(SocketAddress, AZeroInTheTextDoesNotHideTheRest) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {"127.0.0.1\0.evil:80"sv, "[::1\0x]:80"sv, "unix:/run/x\0y"sv, "unix:\0x"sv, "[fe80::1%1\0]:80"sv}) {
    EXPECT_FALSE(SocketAddress::Parse(text).has_value()) << text;
  }
}

// A datagram of a Unix socket without a name: the kernel says that the address has 0 bytes, and writes none.
TEST(SocketAddress, AnAddressOfNoBytesIsNone) {
  SocketAddress address = SocketAddress::LoopbackIpv4(80);
  address.set_size(0);
  EXPECT_EQ(address, SocketAddress());
  EXPECT_EQ(address.family(), AF_UNSPEC);
  EXPECT_EQ(address.ToString(), "(none)");
}

}  // namespace
}  // namespace weft::io
