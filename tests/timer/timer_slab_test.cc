// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/queue/timer_slab.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/timer/callback/callback_timer.h"

namespace weft::timer {
namespace {

class TimerSlabTest : public ::testing::TestWithParam<EntryWidth> {
 protected:
  // Allocates as callback_timer.cc does.
  TimerEntry* Allocate() {
    TimerEntry* entry = slab_.Allocate();
    for (; entry == nullptr; entry = slab_.Allocate()) {
      if (TimerChunk* chunk = slab_.WithoutMemory()) {
        // Or this would go on for ever.
        if (chunk->populated == kPlacesPerChunk) throw std::logic_error("a chunk that has all its memory wants more");
        const std::uint32_t to = TimerSlab::NextStep(chunk->populated);
        TimerSlab::Populate(chunk, chunk->populated, to);
        chunk->populated = to;
        continue;
      }
      TimerChunk* chunk = TimerSlab::NewChunk(nullptr, GetParam(), /*node=*/-1);
      EXPECT_NE(chunk, nullptr);
      slab_.Adopt(chunk);
    }
    const std::uint64_t word = entry->word.load();
    EXPECT_EQ(word & TimerEntry::kStateMask, std::uint64_t{TimerEntry::kFree});
    entry->word.store(word | TimerEntry::kCreated);
    return entry;
  }
  static std::uint64_t GenerationOf(const TimerEntry* entry) { return GenerationOfWord(entry->word.load()); }
  static std::uint64_t IdOf(TimerEntry* entry) { return TimerSlab::IdOf(entry, GenerationOf(entry)); }
  // What an id means: its entry, if its generation is that of the id.
  static TimerEntry* Resolve(std::uint64_t id) {
    TimerEntry* entry = TimerSlab::Find(id);
    return entry != nullptr && GenerationOf(entry) == GenerationOfId(id) ? entry : nullptr;
  }

  static std::size_t EntriesPerChunk() { return kPlacesPerChunk / static_cast<std::size_t>(GetParam()); }

  TimerSlab slab_{GetParam()};
};

TEST_P(TimerSlabTest, AnIdLeadsToItsEntryUntilTheEntryIsFreed) {
  TimerEntry* entry = Allocate();
  const std::uint64_t id = IdOf(entry);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(Resolve(id), entry);
  slab_.Free(entry);
  EXPECT_EQ(Resolve(id), nullptr);
}

TEST_P(TimerSlabTest, MemoryIsUsedAgainAtOnceAndUnderAnotherId) {
  TimerEntry* entry = Allocate();
  const std::uint64_t id = IdOf(entry);
  slab_.Free(entry);
  EXPECT_EQ(Allocate(), entry);
  EXPECT_NE(IdOf(entry), id);
  EXPECT_EQ(Resolve(id), nullptr);
  slab_.Free(entry);
}

TEST_P(TimerSlabTest, AMadeUpIdIsHarmless) {
  std::mt19937_64 random(1);
  TimerEntry* entry = Allocate();
  const std::uint64_t id = IdOf(entry);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t made_up = random();
    if (made_up != id) {
      EXPECT_NE(Resolve(made_up), entry);
    }
  }
  EXPECT_EQ(Resolve(0), nullptr);
  EXPECT_EQ(Resolve(~std::uint64_t{0}), nullptr);
  slab_.Free(entry);
}

TEST_P(TimerSlabTest, IdsAreUniqueOverManyChunks) {
  std::vector<TimerEntry*> entries;
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < 3 * EntriesPerChunk(); ++i) {
    entries.push_back(Allocate());
    EXPECT_TRUE(ids.insert(IdOf(entries.back())).second);
  }
  EXPECT_EQ(slab_.live(), entries.size());
  std::size_t seen = 0;
  slab_.ForEachLive([&](TimerEntry*) { ++seen; });
  EXPECT_EQ(seen, entries.size());
  for (TimerEntry* entry : entries) slab_.Free(entry);
  EXPECT_EQ(slab_.live(), 0u);
  // All of that memory is found again before more is asked for.
  for (std::size_t i = 0; i < entries.size(); ++i) {
    TimerEntry* entry = slab_.Allocate();
    ASSERT_NE(entry, nullptr);
    entry->word.store(entry->word.load() | TimerEntry::kCreated);
    EXPECT_TRUE(ids.insert(IdOf(entry)).second) << "an id came back";
    entries[i] = entry;
  }
  for (TimerEntry* entry : entries) slab_.Free(entry);
}

TEST_P(TimerSlabTest, MemoryThatNobodyUsesGoesBackAndItsOldIdsStayStale) {
  const std::size_t count = 3 * EntriesPerChunk();
  std::vector<TimerEntry*> entries;
  std::vector<std::uint64_t> ids;
  for (int round = 0; round < 3; ++round) {
    entries.clear();
    for (std::size_t i = 0; i < count; ++i) {
      entries.push_back(Allocate());
      ids.push_back(IdOf(entries.back()));
    }
    bool memory_unused = false;
    for (TimerEntry* entry : entries) memory_unused |= slab_.Free(entry);
    EXPECT_TRUE(memory_unused);
    const std::size_t before = slab_.chunks_in_memory();
    EXPECT_GE(before, 3u);
    int taken = 0;
    while (TimerChunk* chunk = slab_.TakeUnused()) {
      TimerSlab::ReturnMemory(chunk);
      slab_.PutBack(chunk);
      ++taken;
    }
    EXPECT_GE(taken, 2);
    EXPECT_LE(slab_.chunks_in_memory(), 1u);
    for (const std::uint64_t id : ids) {
      TimerEntry* entry = TimerSlab::Find(id);
      // A free entry may show the generation of its next use, never that of a former one.
      if (entry != nullptr && GenerationOf(entry) == GenerationOfId(id)) FAIL() << "an id came back to life";
    }
  }
  std::set<std::uint64_t> unique(ids.begin(), ids.end());
  EXPECT_EQ(unique.size(), ids.size());
}

std::size_t ResidentBytes(TimerChunk* chunk) {
  std::vector<unsigned char> resident(kTimerChunkBytes / 4096);
  EXPECT_EQ(mincore(chunk, kTimerChunkBytes, resident.data()), 0);
  return 4096 * static_cast<std::size_t>(std::count_if(resident.begin(), resident.end(), [](auto r) { return r & 1; }));
}

// Chunks after the first were huge pages, and who set the timer that needed one stood still for milliseconds.
TEST_P(TimerSlabTest, AChunkGetsItsMemoryInSmallStepsAsItIsUsedUp) {
  constexpr std::size_t kStep = 16 * 1024;
  std::vector<TimerEntry*> entries;
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (std::size_t used = 0; used < EntriesPerChunk() - TimerChunk::kFirstPlace; ++used) {
      entries.push_back(Allocate());
      if (used % 100 != 0 && used > 10) continue;
      TimerChunk* own = TimerChunk::Of(entries.back());
      const auto in_use = reinterpret_cast<std::uintptr_t>(entries.back()) - reinterpret_cast<std::uintptr_t>(own);
      ASSERT_LE(ResidentBytes(own), std::min(in_use + 4096 + kStep, 2 * (in_use + 4096))) << used;
    }
  }
  for (TimerEntry* entry : entries) slab_.Free(entry);
}

// The rest of a chunk that was never used does not hide what was freed elsewhere.
TEST_P(TimerSlabTest, WhatWasFreedIsUsedBeforeMoreMemoryIsAskedFor) {
  std::vector<TimerEntry*> entries;
  for (std::size_t i = 0; i < EntriesPerChunk() + 200; ++i) entries.push_back(Allocate());
  slab_.Free(entries[0]);
  slab_.Free(entries[1]);
  TimerChunk* second = TimerChunk::Of(entries.back());
  std::set<TimerEntry*> reused;
  while (second->used < second->populated) entries.push_back(Allocate());
  for (int i = 0; i < 2; ++i) reused.insert(Allocate());
  EXPECT_EQ(reused, (std::set<TimerEntry*>{entries[0], entries[1]}));
  EXPECT_EQ(slab_.Allocate(), nullptr);
  EXPECT_EQ(slab_.WithoutMemory(), second);
  entries.push_back(Allocate());
  EXPECT_EQ(TimerChunk::Of(entries.back()), second);
  for (TimerEntry* entry : entries) slab_.Free(entry);
  EXPECT_EQ(slab_.live(), 0u);
}

TEST_P(TimerSlabTest, AChunkThatWasHalfUsedUpWhenItsMemoryWentBackIsUsedOnce) {
  std::vector<TimerEntry*> first = {Allocate()};
  for (int i = 0; i < 2; ++i) {
    std::vector<TimerEntry*> second;
    while (second.size() < 200) {
      TimerEntry* entry = Allocate();
      (TimerChunk::Of(entry) == TimerChunk::Of(first[0]) ? first : second).push_back(entry);
    }
    TimerChunk* grows = TimerChunk::Of(second[0]);
    while (grows->used < grows->populated) {
      second.push_back(Allocate());
      ASSERT_LE(second.size(), EntriesPerChunk());
    }
    slab_.Free(first[0]);
    EXPECT_EQ(Allocate(), first[0]);  // Now another chunk is where Allocate() takes from.
    for (TimerEntry* entry : second) slab_.Free(entry);
    TimerChunk* unused = slab_.TakeUnused();
    ASSERT_EQ(unused, grows);
    TimerSlab::ReturnMemory(unused);
    slab_.PutBack(unused);
  }
  std::set<TimerEntry*> entries(first.begin(), first.end());
  while (slab_.live() < 3 * EntriesPerChunk()) ASSERT_TRUE(entries.insert(Allocate()).second);
  for (TimerEntry* entry : entries) slab_.Free(entry);
  EXPECT_EQ(slab_.live(), 0u);
}

TEST_P(TimerSlabTest, APlaceThatHasUsedUpItsGenerationsIsLeftAlone) {
  TimerEntry* entry = Allocate();
  entry->word.store((kMaxGeneration << TimerEntry::kGenerationShift) | TimerEntry::kCreated);
  const std::uint64_t last_id = IdOf(entry);
  EXPECT_EQ(GenerationOfId(last_id), kMaxGeneration);
  slab_.Free(entry);
  EXPECT_EQ(Resolve(last_id), nullptr);
  std::vector<TimerEntry*> entries;
  for (std::size_t i = 0; i < 2 * EntriesPerChunk(); ++i) {
    entries.push_back(Allocate());
    ASSERT_NE(entries.back(), entry);
    ASSERT_LE(GenerationOf(entries.back()), kMaxGeneration);
    ASSERT_GE(GenerationOf(entries.back()), 1u);
  }
  for (TimerEntry* used : entries) slab_.Free(used);
}

INSTANTIATE_TEST_SUITE_P(Widths, TimerSlabTest, ::testing::ValuesIn(kEntryWidths),
                         [](const auto& width) { return width.param == EntryWidth::kWide ? "Wide" : "Narrow"; });

// Its second line holds what users chose, where other entries have their generation.
TEST(WideTimerSlab, AnIdOfTheMiddleOfAnEntryIsNone) {
  TimerSlab slab(EntryWidth::kWide);
  slab.Adopt(TimerSlab::NewChunk(nullptr, EntryWidth::kWide, /*node=*/-1));
  TimerEntry* entry = slab.Allocate();
  const std::uint64_t generation = GenerationOfWord(entry->word.load());
  auto* middle = reinterpret_cast<std::uint64_t*>(entry + 1);
  std::fill(middle, middle + base::kCacheLineSize / sizeof(*middle), generation << TimerEntry::kGenerationShift);
  const std::uint64_t id = TimerSlab::IdOf(entry, generation);
  EXPECT_EQ(TimerSlab::Find(id), entry);
  EXPECT_EQ(TimerSlab::Find(id + 1), nullptr);
  slab.Free(entry);
}

TEST(TimerEntry, SmallCallablesTouchOneCacheLine) {
  struct EightBytes {
    void* capture;
    void operator()() const {}
  };
  EXPECT_TRUE(kCallableFitsInline<EightBytes>);
  EXPECT_EQ(CallbackTypeOf<EightBytes>::value.size, 8u);
  EXPECT_TRUE(CallbackTypeOf<EightBytes>::value.moved_by_copying);
  EXPECT_EQ(CallbackTypeOf<EightBytes>::value.destroy, nullptr);
}

}  // namespace
}  // namespace weft::timer
