// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/noncontiguous_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

std::string Text(std::size_t size, int seed = 0) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + (i * 7 + i / 26 + static_cast<std::size_t>(seed)) % 26);
  return text;
}

// A block of its own.
void AppendBlock(NoncontiguousBuffer* buffer, std::string_view text) {
  auto kept = std::make_shared<std::string>(text);
  buffer->AppendForeign(kept->data(), kept->size(), [kept](const void*) {});
}

NoncontiguousBuffer InBlocksOf(std::size_t size, std::string_view text) {
  NoncontiguousBuffer buffer;
  for (std::size_t i = 0; i < text.size(); i += size) AppendBlock(&buffer, text.substr(i, size));
  return buffer;
}

void ExpectIs(const NoncontiguousBuffer& buffer, std::string_view text) {
  ASSERT_EQ(buffer.ToString(), text);
  EXPECT_EQ(buffer.ByteSize(), text.size());
  EXPECT_EQ(buffer.Empty(), text.empty());
  std::size_t sum = 0;
  for (const std::string_view block : buffer) {
    EXPECT_FALSE(block.empty());  // NB1
    sum += block.size();
  }
  EXPECT_EQ(sum, text.size());
  EXPECT_TRUE(buffer == text);
}

TEST(NoncontiguousBuffer, ShortBytesGoBehindEachOtherInOneBlock) {
  NoncontiguousBuffer buffer;
  buffer.AppendCopy("GET ");
  const char* const first = buffer.FirstContiguous().data();
  buffer.AppendCopy("/index.html");
  buffer.Append(std::string(" HTTP/1.1\r\n"));
  ExpectIs(buffer, "GET /index.html HTTP/1.1\r\n");
  EXPECT_EQ(buffer.Blocks().size(), 1u);
  EXPECT_EQ(buffer.FirstContiguous().data(), first);
}

TEST(NoncontiguousBuffer, ALongStringIsKeptAndNotCopied) {
  std::string text = Text(5000);
  const char* const at = text.data();
  NoncontiguousBuffer buffer;
  buffer.Append(std::move(text));
  EXPECT_EQ(buffer.FirstContiguous().data(), at);
  ExpectIs(buffer, Text(5000));
  char* const raw = new char[3]{'x', 'y', 'z'};
  buffer.Append(raw, 3);
  EXPECT_EQ(buffer.Blocks().back().data(), raw);
  buffer.Append(new char[1], 0);  // Freed at once.
  EXPECT_EQ(buffer.ByteSize(), 5003u);
}

TEST(NoncontiguousBuffer, CopiesCutsAndSlicesShareTheBlocks) {
  NoncontiguousBuffer buffer(Text(100));
  const char* const at = buffer.FirstContiguous().data();
  const NoncontiguousBuffer copy = buffer;
  const NoncontiguousBuffer slice = buffer.Slice(10, 20);
  const NoncontiguousBuffer head = buffer.Cut(40);
  EXPECT_EQ(copy.FirstContiguous().data(), at);
  EXPECT_EQ(slice.FirstContiguous().data(), at + 10);
  EXPECT_EQ(head.FirstContiguous().data(), at);
  EXPECT_EQ(buffer.FirstContiguous().data(), at + 40);
  ExpectIs(copy, Text(100));
  ExpectIs(slice, Text(100).substr(10, 20));
  ExpectIs(head, Text(100).substr(0, 40));
  ExpectIs(buffer, Text(100).substr(40));
}

TEST(NoncontiguousBuffer, WhatSharesABlockDoesNotSeeWhatTheOtherAppends) {
  NoncontiguousBuffer buffer("common ");
  NoncontiguousBuffer copy = buffer;
  NoncontiguousBuffer head = buffer.Cut(3);
  buffer.AppendCopy("mine");
  copy.AppendCopy("yours");
  head.AppendCopy("theirs");
  ExpectIs(buffer, "mon mine");
  ExpectIs(copy, "common yours");
  ExpectIs(head, "comtheirs");
}

TEST(NoncontiguousBuffer, ABlockIsWrittenFromItsStartAgainOnlyIfNobodyHasAByteOfIt) {
  NoncontiguousBuffer buffer;
  buffer.AppendCopy("first");
  const char* const at = buffer.FirstContiguous().data();
  NoncontiguousBuffer held = buffer.Cut(5);
  buffer.AppendCopy("second");
  EXPECT_EQ(buffer.FirstContiguous().data(), at + 5);
  ExpectIs(held, "first");
  held.Clear();
  buffer.Skip(6);
  buffer.AppendCopy("third");
  EXPECT_EQ(buffer.FirstContiguous().data(), at);
  ExpectIs(buffer, "third");
}

TEST(NoncontiguousBuffer, ATailGoesWithTheBufferThatIsMoved) {
  NoncontiguousBuffer from("abc");
  const char* const at = from.FirstContiguous().data();
  NoncontiguousBuffer to = std::move(from);
  from.AppendCopy("other");  // NOLINT(bugprone-use-after-move): it is empty.
  to.AppendCopy("def");
  ExpectIs(from, "other");
  ExpectIs(to, "abcdef");
  EXPECT_EQ(to.FirstContiguous().data(), at);
  EXPECT_EQ(to.Blocks().size(), 1u);
  from = std::move(to);
  ExpectIs(from, "abcdef");
  ExpectIs(to, "");  // NOLINT(bugprone-use-after-move)
}

TEST(NoncontiguousBuffer, ADeleterRunsOnceWhenTheLastByteHasGone) {
  int deleted = 0;
  const void* deleted_at = nullptr;
  static const char kText[] = "foreign";
  const auto deleter = [&](const void* at) {
    ++deleted;
    deleted_at = at;
  };
  NoncontiguousBuffer a;
  a.AppendForeign(kText, 7, deleter);
  EXPECT_EQ(a.FirstContiguous().data(), kText);
  NoncontiguousBuffer b = a.Cut(3);
  NoncontiguousBuffer c = b;
  a.Clear();
  b.Skip(3);
  EXPECT_EQ(deleted, 0);
  ExpectIs(c, "for");
  c.Skip(2);
  EXPECT_EQ(deleted, 0);
  c.Skip(1);
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(deleted_at, kText);
  a.AppendForeign(kText, 0, deleter);
  EXPECT_EQ(deleted, 2);
  EXPECT_TRUE(a.Empty());
}

TEST(NoncontiguousBuffer, ABufferMayBeAppendedToItself) {
  NoncontiguousBuffer buffer = InBlocksOf(3, "abcdefgh");
  const NoncontiguousBuffer& same = buffer;
  buffer.Append(same);
  ExpectIs(buffer, "abcdefghabcdefgh");
  buffer = same;
  ExpectIs(buffer, "abcdefghabcdefgh");
}

TEST(NoncontiguousBuffer, ContiguousCopiesOnlyWhatIsInSeveralBlocks) {
  NoncontiguousBuffer buffer = InBlocksOf(4, "abcdefghijkl");
  const std::vector<std::string_view> before = buffer.Blocks();
  EXPECT_EQ(buffer.Contiguous(0), "");
  EXPECT_EQ(buffer.Contiguous(4).data(), before[0].data());
  EXPECT_EQ(buffer.Contiguous(6), "abcdef");
  ExpectIs(buffer, "abcdefghijkl");
  EXPECT_EQ(buffer.Blocks().size(), 3u);
  EXPECT_EQ(buffer.Blocks()[1].data(), before[1].data() + 2);
  EXPECT_EQ(buffer.Contiguous(12), "abcdefghijkl");
  EXPECT_EQ(buffer.Blocks().size(), 1u);
  buffer.AppendCopy("mn");
  EXPECT_EQ(buffer.Contiguous(14), "abcdefghijklmn");
}

TEST(NoncontiguousBuffer, FindLooksAcrossBlocks) {
  const std::string text = "aabaabaaab-aab";
  for (std::size_t block = 1; block <= text.size(); ++block) {
    const NoncontiguousBuffer buffer = InBlocksOf(block, text);
    for (std::size_t from = 0; from <= text.size() + 1; ++from) {
      for (const std::string_view what : {"", "a", "aaab", "b-", "aab", "aabaabaaab-aab", "x", "aabaabaaab-aabx"}) {
        EXPECT_EQ(buffer.Find(what, from), std::string_view(text).find(what, from)) << what << " from " << from;
      }
    }
    EXPECT_TRUE(buffer.StartsWith("aaba"));
    EXPECT_TRUE(buffer.StartsWith(""));
    EXPECT_FALSE(buffer.StartsWith("ab"));
    EXPECT_FALSE(buffer.StartsWith(text + "x"));
  }
}

TEST(NoncontiguousBuffer, BuffersAreEqualIfTheirBytesAre) {
  const std::string text = Text(60);
  for (const std::size_t a : {1, 3, 7, 60}) {
    for (const std::size_t b : {1, 4, 7, 60}) {
      EXPECT_TRUE(InBlocksOf(a, text) == InBlocksOf(b, text));
      std::string other = text;
      other.back() = '!';
      EXPECT_FALSE(InBlocksOf(a, text) == InBlocksOf(b, other));
      EXPECT_FALSE(InBlocksOf(a, text) == InBlocksOf(b, text.substr(1)));
      EXPECT_FALSE(InBlocksOf(a, text) == other);
    }
  }
}

TEST(NoncontiguousBuffer, IovecsDescribeTheBytesFromAnOffset) {
  const std::string text = Text(20);
  const NoncontiguousBuffer buffer = InBlocksOf(6, text);
  for (std::size_t offset = 0; offset <= 20; ++offset) {
    iovec parts[3];
    const std::size_t count = buffer.FillIovecs(parts, offset);
    std::string described;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NE(parts[i].iov_len, 0u);
      described.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    }
    EXPECT_EQ(described, text.substr(offset, offset < 6 ? 18 - offset : 20 - offset)) << offset;
  }
  std::vector<std::string_view> blocks(buffer.begin(), buffer.end());
  EXPECT_EQ(blocks, buffer.Blocks());
  EXPECT_EQ(buffer.end() - buffer.begin(), 4);
  EXPECT_EQ(buffer.begin()[3], std::string_view(text).substr(18));
}

TEST(NoncontiguousBuffer, RoomIsInTheTailIfThereIsEnough) {
  NoncontiguousBuffer buffer;
  std::span<char> room = buffer.Room(10, 100);
  ASSERT_EQ(room.size(), 100u);
  std::memset(room.data(), 'a', 60);
  buffer.Filled(60);
  std::span<char> more = buffer.Room(40, 100);
  EXPECT_EQ(more.data(), room.data() + 60);
  EXPECT_EQ(more.size(), 40u);
  buffer.Filled(0);
  more = buffer.Room(41, 50);
  EXPECT_EQ(more.size(), 50u);
  more = buffer.Room(51, 7);
  EXPECT_EQ(more.size(), 51u);
  std::memset(more.data(), 'b', 51);
  buffer.Filled(51);
  ExpectIs(buffer, std::string(60, 'a') + std::string(51, 'b'));
}

TEST(NoncontiguousBuffer, BlocksGrowWithTheBuffer) {
  NoncontiguousBuffer buffer;
  buffer.AppendCopy("x");
  EXPECT_LT(buffer.Room(1).size(), 512u);
  std::string all = "x";
  for (int i = 0; i < 3000; ++i) {
    buffer.AppendCopy(Text(100, i));
    all += Text(100, i);
  }
  ExpectIs(buffer, all);
  EXPECT_LT(buffer.Blocks().size(), 40u);  // Of 300,000 bytes.
}

TEST(NoncontiguousBufferBuilder, CountsTheRoomAsWrittenAndTakesBackTheRest) {
  NoncontiguousBufferBuilder builder;
  std::string all;
  for (int i = 0; i < 200; ++i) {
    const std::span<char> room = builder.Next();
    ASSERT_FALSE(room.empty());
    const std::size_t used = std::min<std::size_t>(room.size(), 1 + static_cast<std::size_t>(i * 37 % 400));
    const std::string text = Text(used, i);
    std::copy(text.begin(), text.end(), room.begin());
    builder.BackUp(room.size() - used);
    all += text;
    if (i % 10 == 0) {
      builder.Append("-");
      all += "-";
    }
    if (i % 25 == 0) {
      builder.Append(NoncontiguousBuffer("+"));
      all += "+";
    }
    ASSERT_EQ(builder.ByteSize(), all.size());
  }
  ExpectIs(builder.Take(), all);
  EXPECT_EQ(builder.ByteSize(), 0u);
  ExpectIs(builder.Take(), "");
}

TEST(NoncontiguousBufferBuilder, AllocatesWhatIsExpected) {
  NoncontiguousBufferBuilder builder(3000);
  EXPECT_EQ(builder.Next().size(), 3000u);
  ExpectIs(builder.Take().Cut(0), "");
}

TEST(NoncontiguousBufferDeathTest, MoreBytesThanThereAreAbort) {
  NoncontiguousBuffer buffer("abc");
  NoncontiguousBufferBuilder builder;
  char to[8];
  EXPECT_DEATH(static_cast<void>(buffer.Cut(4)), "Cut: 4 bytes of 3");
  EXPECT_DEATH(buffer.Skip(4), "Skip: 4 bytes of 3");
  EXPECT_DEATH(static_cast<void>(buffer.Slice(2, 2)), "Slice: 2 bytes from 2 on, of 3");
  EXPECT_DEATH(static_cast<void>(buffer.Contiguous(4)), "Contiguous: 4 bytes of 3");
  EXPECT_DEATH(buffer.CopyTo(to, 4), "CopyTo: 4 bytes from 0 on, of 3");
  EXPECT_DEATH(buffer.Filled(1 << 20), "more than Room");
  EXPECT_DEATH(builder.BackUp(1), "BackUp: 1 bytes of 0");
  EXPECT_DEATH(buffer.Append(std::move(buffer)), "its own end");
}

// Several buffers, which share blocks, beside as many strings: whatever is done to both, they stay equal.
class Twins {
 public:
  explicit Twins(unsigned seed) : random_(seed) {}

  void Step() {
    const std::size_t a = Below(kCount);
    const std::size_t b = Below(kCount);
    NoncontiguousBuffer& buffer = buffers_[a];
    std::string& text = texts_[a];
    const std::size_t size = Below(text.size() + 1);
    const std::string fresh = Text(Below(Below(20) == 0 ? 40'000 : 300), static_cast<int>(Below(26)));
    switch (Below(15)) {
      case 0:
        buffer.Append(std::string(fresh));
        text += fresh;
        break;
      case 1:
        AppendBlock(&buffer, fresh);
        text += fresh;
        break;
      case 2:
      case 3:
      case 4:
        buffer.AppendCopy(fresh);
        text += fresh;
        break;
      case 5:
        if (text.size() + texts_[b].size() > kMost) break;
        buffer.Append(std::as_const(buffers_[b]));
        text += std::string(texts_[b]);
        break;
      case 6:
        if (a == b) break;
        buffer.Append(std::move(buffers_[b]));
        text += std::exchange(texts_[b], {});
        break;
      case 7:
        if (a == b) break;
        buffers_[b] = buffer.Cut(size);
        texts_[b] = text.substr(0, size);
        text.erase(0, size);
        break;
      case 8:
        buffer.Skip(size);
        text.erase(0, size);
        break;
      case 9:
        buffers_[b] = buffer;
        texts_[b] = text;
        break;
      case 10: {
        const std::size_t count = Below(text.size() - size + 1);
        NoncontiguousBuffer slice = buffer.Slice(size, count);
        const std::string part = text.substr(size, count);
        ExpectIs(slice, part);
        buffers_[b] = std::move(slice);
        texts_[b] = part;
        break;
      }
      case 11:
        EXPECT_EQ(buffer.Contiguous(size), std::string_view(text).substr(0, size));
        break;
      case 12: {
        const std::string what = text.substr(size, Below(30));
        EXPECT_EQ(buffer.Find(what), text.find(what));
        std::string copy(what.size(), '\0');
        buffer.CopyTo(copy.data(), copy.size(), size);
        EXPECT_EQ(copy, what);
        EXPECT_EQ(buffers_[a] == buffers_[b], texts_[a] == texts_[b]);
        break;
      }
      case 13: {
        const std::span<char> room = buffer.Room(1 + Below(100), Below(1000));
        const std::string filled = Text(Below(room.size() + 1));
        std::copy(filled.begin(), filled.end(), room.begin());
        buffer.Filled(filled.size());
        text += filled;
        break;
      }
      default:
        if (Below(10) != 0) break;
        buffer.Clear();
        text.clear();
    }
    ExpectIs(buffer, text);
  }
  void CheckAll() {
    for (std::size_t i = 0; i < kCount; ++i) ExpectIs(buffers_[i], texts_[i]);
  }

 private:
  static constexpr std::size_t kCount = 6;
  static constexpr std::size_t kMost = 200'000;

  std::size_t Below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  std::mt19937 random_;
  NoncontiguousBuffer buffers_[kCount];
  std::string texts_[kCount];
};

TEST(NoncontiguousBuffer, IsAsAStringWhateverIsDoneToIt) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Twins twins(seed);
    for (int step = 0; step < 400 && !::testing::Test::HasFailure(); ++step) {
      twins.Step();
      if (step % 20 == 0) twins.CheckAll();
    }
    twins.CheckAll();
  }
}

// Each thread drops, copies and appends to buffers that share one block; the deleter must come after all of it.
TEST(NoncontiguousBuffer, ThreadsShareBlocks) {
  for (const int threads : {1, 2, 4, 8}) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> deleted{0};
      std::vector<char> bytes(64, 'x');
      std::vector<int> uses(static_cast<std::size_t>(threads), 0);  // Plain: the deleter must see what was written.
      NoncontiguousBuffer shared("head ");
      shared.AppendForeign(bytes.data(), bytes.size(), [&](const void*) {
        std::fill(bytes.begin(), bytes.end(), '-');
        EXPECT_EQ(std::accumulate(uses.begin(), uses.end(), 0), 100 * threads);
        deleted.fetch_add(1);
      });
      std::vector<std::thread> crew;
      for (int i = 0; i < threads; ++i) {
        crew.emplace_back([mine = shared, i, &uses]() mutable {
          for (int n = 0; n < 100; ++n) {
            NoncontiguousBuffer copy = mine;
            copy.AppendCopy(std::to_string(i));
            EXPECT_TRUE(copy.Cut(69) == mine);
            EXPECT_EQ(copy.ToString(), std::to_string(i));
            ++uses[static_cast<std::size_t>(i)];
          }
          mine.Clear();
        });
      }
      shared.AppendCopy("tail");
      EXPECT_EQ(shared.Slice(69, 4).ToString(), "tail");
      shared.Clear();
      for (std::thread& thread : crew) thread.join();
      EXPECT_EQ(deleted.load(), 1);
    }
  }
}

}  // namespace
}  // namespace weft
