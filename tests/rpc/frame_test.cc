// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::rpc {
namespace {

using Random = std::mt19937_64;

std::size_t Below(Random& random, std::size_t limit) { return static_cast<std::size_t>(random() % limit); }

struct Sent {
  FrameHeader header;
  std::string meta;
  std::string body;
};

std::string RandomBytes(Random& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Mostly small; some of up to `most` bytes.
Sent RandomFrame(Random& random, std::size_t most) {
  const std::size_t body = Below(random, random() % 16 == 0 ? most : 300);
  Sent sent{.header = {}, .meta = RandomBytes(random, Below(random, 60)), .body = RandomBytes(random, body)};
  sent.header = {.kind = static_cast<FrameKind>(1 + Below(random, 4)),
                 .meta_size = static_cast<std::uint32_t>(sent.meta.size()),
                 .body_size = static_cast<std::uint32_t>(sent.body.size()),
                 .correlation_id = random()};
  return sent;
}

std::string Bytes(const Sent& sent) {
  std::string bytes(FrameHeader::kSize, '\0');
  EncodeHeader(sent.header, bytes.data());
  return bytes + sent.meta + sent.body;
}

// Gives `bytes` to the reader in pieces of at most `most` bytes, and its frames to `on_frame`. Returns what ended it.
template <class F>
FrameReader::Result Feed(FrameReader& reader, std::string_view bytes, Random& random, std::size_t most, F&& on_frame) {
  while (!bytes.empty()) {
    const std::span<char> room = reader.Room();
    EXPECT_FALSE(room.empty());
    const std::size_t piece = std::min({bytes.size(), room.size(), 1 + Below(random, most)});
    std::memcpy(room.data(), bytes.data(), piece);
    reader.Filled(piece);
    bytes.remove_prefix(piece);
    for (;;) {
      Frame frame;
      const FrameReader::Result result = reader.Next(&frame);
      if (result == FrameReader::Result::kNeedMore) break;
      if (result != FrameReader::Result::kFrame) return result;
      on_frame(std::move(frame));
    }
  }
  return FrameReader::Result::kNeedMore;
}

void ExpectSame(const Frame& got, const Sent& sent) {
  EXPECT_EQ(got.header.kind, sent.header.kind);
  EXPECT_EQ(got.header.correlation_id, sent.header.correlation_id);
  EXPECT_EQ(got.meta, sent.meta);
  EXPECT_EQ(got.body, sent.body);
}

TEST(Frame, TheHeaderIsWhatTheCommentSays) {
  char bytes[FrameHeader::kSize];
  EncodeHeader({.kind = FrameKind::kAnswer,
                .meta_size = 0x01020304,
                .body_size = 0x0a0b0c0d,
                .correlation_id = 0x1112131415161718},
               bytes);
  EXPECT_EQ(std::string_view(bytes, sizeof(bytes)),
            std::string_view("WEFT\x01\x02\0\0\x04\x03\x02\x01\x0d\x0c\x0b\x0a\x18\x17\x16\x15\x14\x13\x12\x11", 24));
}

TEST(FrameReader, FramesComeOutAsTheyWentInHoweverTheyAreSplit) {
  for (const std::size_t most : {1, 7, 30, 1'000, 70'000, 1'000'000}) {
    Random random(most);
    std::vector<Sent> sent;
    std::string bytes;
    for (int i = 0; i < (most == 1 ? 60 : 400); ++i) {
      sent.push_back(RandomFrame(random, 200'000));  // Beyond the reader's block.
      bytes += Bytes(sent.back());
    }
    FrameReader reader({.max_meta = 100, .max_body = 200'000});
    std::size_t count = 0;
    // Keeps each second frame to the end: nothing may overwrite a returned frame.
    std::vector<std::pair<std::size_t, Frame>> kept;
    const auto result = Feed(reader, bytes, random, most, [&](Frame frame) {
      ASSERT_LT(count, sent.size());
      ExpectSame(frame, sent[count]);
      if (count % 2 == 0) kept.emplace_back(count, std::move(frame));
      ++count;
    });
    EXPECT_EQ(result, FrameReader::Result::kNeedMore) << reader.error();
    EXPECT_EQ(count, sent.size()) << "pieces of at most " << most;
    EXPECT_TRUE(reader.AtBoundary());
    for (const auto& [index, frame] : kept) ExpectSame(frame, sent[index]);
  }
}

TEST(FrameReader, AFrameThatIsNotWholeIsNotGivenOut) {
  Random random(1);
  const Sent sent = RandomFrame(random, 300);
  const std::string bytes = Bytes(sent);
  FrameReader reader({.max_meta = 100, .max_body = 200'000});
  const auto ignore = [](const Frame&) { FAIL() << "it is not whole"; };
  EXPECT_EQ(Feed(reader, std::string_view(bytes).substr(0, bytes.size() - 1), random, 10, ignore),
            FrameReader::Result::kNeedMore);
  EXPECT_FALSE(reader.AtBoundary());
}

class FrameReaderErrors : public ::testing::Test {
 protected:
  FrameReader::Result ResultOf(std::string bytes) {
    Random random(1);
    FrameReader reader({.max_meta = 100, .max_body = 1'000});
    const auto result = Feed(reader, bytes, random, bytes.size(), [](const Frame&) {});
    error_ = reader.error();
    return result;
  }
  static std::string Good() {
    std::string bytes(FrameHeader::kSize, '\0');
    EncodeHeader({}, bytes.data());
    return bytes;
  }
  std::string error_;
};

TEST_F(FrameReaderErrors, EachFieldOfTheHeaderIsChecked) {
  EXPECT_EQ(ResultOf(Good()), FrameReader::Result::kNeedMore);
  for (const auto& [at, value] : {std::pair<std::size_t, char>{0, 'w'},
                                  {3, 'X'},
                                  {4, '\0'},
                                  {4, '\2'},
                                  {5, '\0'},
                                  {5, '\7'},
                                  {6, '\1'},
                                  {7, '\xff'}}) {
    std::string bytes = Good();
    bytes[at] = value;
    EXPECT_EQ(ResultOf(bytes), FrameReader::Result::kMalformed) << "byte " << at;
    EXPECT_NE(error_, "") << "byte " << at;
  }
}

TEST_F(FrameReaderErrors, WhatIsTooLargeIsRefusedByItsHeader) {
  std::string bytes(FrameHeader::kSize, '\0');
  EncodeHeader({.body_size = 1'001}, bytes.data());
  EXPECT_EQ(ResultOf(bytes), FrameReader::Result::kTooLarge);
  EXPECT_NE(error_.find("1001"), std::string::npos) << error_;
  EncodeHeader({.meta_size = 0xffffffff, .body_size = 0xffffffff}, bytes.data());
  EXPECT_EQ(ResultOf(bytes), FrameReader::Result::kTooLarge);
  EncodeHeader({.meta_size = 100, .body_size = 1'000}, bytes.data());
  EXPECT_EQ(ResultOf(bytes), FrameReader::Result::kNeedMore);
}

// Bytes of a valid stream are changed, removed or added. Frames before the first of them are as sent, and no frame
// exceeds the limits; the sanitizers check the rest.
TEST(FrameReader, DamagedStreamsGiveErrorsOrFramesWithinTheLimits) {
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    Random random(seed);
    std::vector<Sent> sent;
    std::vector<std::size_t> ends;
    std::string bytes;
    for (int i = 0; i < 8; ++i) {
      sent.push_back(RandomFrame(random, 1'000));
      bytes += Bytes(sent.back());
      ends.push_back(bytes.size());
    }
    std::size_t first_damage = bytes.size();
    for (std::size_t i = 0, n = 1 + Below(random, 4); i < n && !bytes.empty(); ++i) {
      const std::size_t at = Below(random, bytes.size());
      first_damage = std::min(first_damage, at);
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + Below(random, 20));
          break;
        default:
          bytes.insert(at, RandomBytes(random, 1 + Below(random, 20)));
      }
    }
    FrameReader reader({.max_meta = 60, .max_body = 1'000});
    std::size_t count = 0;
    const auto result = Feed(reader, bytes, random, 1 + Below(random, 300), [&](const Frame& frame) {
      EXPECT_LE(frame.meta.size(), 60u);
      EXPECT_LE(frame.body.size(), 1'000u);
      if (count < ends.size() && ends[count] <= first_damage) ExpectSame(frame, sent[count]);
      ++count;
    });
    const auto whole = std::count_if(ends.begin(), ends.end(), [&](std::size_t end) { return end <= first_damage; });
    EXPECT_GE(count, static_cast<std::size_t>(whole)) << "seed " << seed;
    EXPECT_EQ(result == FrameReader::Result::kNeedMore, reader.error().empty()) << "seed " << seed;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::rpc
