// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Where the memory of each group lies, according to the kernel (move_pages()): at the start, after stealing has moved
// fibers between nodes, and when their memory is reused.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber_loop.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/fd_slot_pool.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/node_arena.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/queue/timer_slab.h"

#include "guest/guest_fixture.h"
#include "guest/kernel_facts.h"

namespace weft::guest {
namespace {

class GuestMemory : public GuestTest {
 protected:
  void Start(const RuntimeOptions& options) {
    GuestTest::Start(options);
    ASSERT_EQ(Groups().size(), NodesOfKernel().size());
    for (SchedulingGroup* group : Groups()) ASSERT_NE(NodeOf(*group), -1) << "group " << group->id();
  }

  // An object of a group, and the node on which the kernel sees it.
  struct Place {
    const SchedulingGroup* group;
    const void* address;
    int node;
  };

  // (Where eight processors share two, waking a thread takes milliseconds: so few fibers, and each takes a lock once.)
  //
  // Runs `look` in `count` fibers at a time of each group. They stay until the kernel has been asked, so each has an
  // entity and a stack of its own. Each may report addresses.
  template <class Look>
  static std::vector<Place> LookInFibers(int count, Look look) {
    std::mutex mutex;
    std::vector<Place> places;
    std::vector<const void*> addresses;
    const std::vector<SchedulingGroup*> groups = Groups();
    const auto fibers = static_cast<std::ptrdiff_t>(groups.size()) * count;
    FiberLatch all_have_looked(fibers);
    FiberLatch asked(1);
    FiberLatch done(fibers);
    for (SchedulingGroup* group : groups) {
      for (int i = 0; i < count; ++i) {
        StartIn(group, true, [&, group] {
          std::vector<const void*> own;
          look([&own](const void* address) { own.push_back(address); });
          {
            const std::scoped_lock lock(mutex);
            for (const void* address : own) places.push_back({group, address, -1});
            addresses.insert(addresses.end(), own.begin(), own.end());
          }
          all_have_looked.CountDown();
          asked.Wait();
          done.CountDown();
        });
      }
    }
    all_have_looked.Wait();
    const std::vector<int> nodes = NodesOfPages(addresses);
    for (std::size_t i = 0; i < places.size(); ++i) places[i].node = nodes[i];
    asked.CountDown();
    done.Wait();
    return places;
  }

  static void ExpectOnNodesOfGroups(const std::vector<Place>& places, const std::string& what) {
    EXPECT_FALSE(places.empty());
    std::map<std::string, int> wrong;
    for (const Place& place : places) {
      const int expected = NodeOf(*place.group);
      if (place.node == expected) continue;
      ++wrong["group " + std::to_string(place.group->id()) + ", node " + std::to_string(expected) + ": on " +
              std::to_string(place.node)];
    }
    for (const auto& [where, count] : wrong) {
      ADD_FAILURE() << what << ", " << where << ", " << count << " of " << places.size();
    }
  }

  static std::vector<Place> Stacks(int fibers) {
    return LookInFibers(fibers, [](auto report) {
      constexpr std::size_t kPage = 4096;
      volatile char frame[8 * kPage];
      for (std::size_t i = 0; i < sizeof(frame); i += kPage) frame[i] = 1;
      for (std::size_t i = 0; i < sizeof(frame); i += kPage) report(const_cast<const char*>(&frame[i]));
    });
  }
  static std::vector<Place> Entities(int fibers) {
    return LookInFibers(fibers, [](auto report) { report(scheduling_group::CurrentFiber()); });
  }

  // Loads one group, from which the others steal: fibers that begin in several groups, and change their group while
  // they run. Returns how many steps ran in another group than the fiber's first one.
  static int MixFibersByStealing(SchedulingGroup* loaded) {
    constexpr int kFibers = 100;
    std::atomic<int> moved{0};
    FiberLatch done(kFibers);
    for (int i = 0; i < kFibers; ++i) {
      StartIn(loaded, false, [&] {
        const SchedulingGroup* first = scheduling_group::CurrentGroup();
        for (int step = 0; step < 5; ++step) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
          while (std::chrono::steady_clock::now() < until) {
          }
          scheduling_group::YieldCurrentFiber();
          if (scheduling_group::CurrentGroup() != first) moved.fetch_add(1);
        }
        done.CountDown();
      });
    }
    done.Wait();
    return moved.load();
  }
};

TEST_F(GuestMemory, StacksAndFibersOfEachGroupAreOnItsNode) {
  Start(OneGroupPerNode());
  ExpectOnNodesOfGroups(Stacks(40), "stacks");
  ExpectOnNodesOfGroups(Entities(40), "entities");
}

// A fiber that is not stolen takes its entity from its group's arena even if another thread starts it.
TEST_F(GuestMemory, FibersThatFibersOfAnotherGroupStartAreOnTheirNodeToo) {
  Start(OneGroupPerNode());
  std::mutex mutex;
  std::vector<Place> places;
  const std::vector<SchedulingGroup*> groups = Groups();
  FiberLatch done(static_cast<std::ptrdiff_t>(groups.size() * groups.size()));
  for (SchedulingGroup* spawner : groups) {
    StartIn(spawner, true, [&] {
      for (SchedulingGroup* group : groups) {
        StartIn(group, true, [&, group] {
          const void* entity = scheduling_group::CurrentFiber();
          const int node = NodeOfPage(entity);
          {
            const std::scoped_lock lock(mutex);
            places.push_back({group, entity, node});
          }
          done.CountDown();
        });
      }
    });
  }
  done.Wait();
  EXPECT_EQ(places.size(), groups.size() * groups.size());
  ExpectOnNodesOfGroups(places, "entities");
}

// Pages that nobody has used yet get their memory here: this thread belongs to no node. Others use them meanwhile.
void TouchEachPage(std::span<const std::byte> piece) {
  for (std::size_t i = 0; i < piece.size(); i += 4096) {
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(&piece[i])), 0, __ATOMIC_RELAXED);
  }
}

TEST_F(GuestMemory, QueuesAndWorkersOfEachGroupAreOnItsNode) {
  Start(OneGroupPerNode());
  MixFibersByStealing(Groups().front());
  for (SchedulingGroup* group : Groups()) {
    SCOPED_TRACE("group " + std::to_string(group->id()));
    const int node = NodeOf(*group);
    std::size_t pages = 0;
    for (std::span<const std::byte> piece : group->Memory()) {
      TouchEachPage(piece);
      const std::map<int, std::size_t> by_node = PagesByNode(piece.data(), piece.size());
      for (const auto& [on, count] : by_node) {
        EXPECT_EQ(on, node) << count << " pages of a piece of " << piece.size() << " bytes";
        pages += count;
      }
    }
    // The run queue's slots are the most of it: 16 bytes each.
    EXPECT_GE(pages, group->options().run_queue_size * 16 / 4096);
  }
  ExpectOnNodesOfGroups(LookInFibers(20, [](auto report) { report(scheduling_group::CurrentWorker()); }), "workers");
}

// A timer as the library sees it (TimerSlab::Find()), with its shard.
TEST_F(GuestMemory, TimersOfEachGroupAreOnItsNode) {
  Start(OneGroupPerNode());
  const auto look = [](auto report) {
    std::vector<std::uint64_t> timers;
    for (int i = 0; i < 4; ++i) {
      timers.push_back(SetFiberTimer(std::chrono::steady_clock::now() + std::chrono::hours(1), [] {}));
    }
    for (std::uint64_t id : timers) {
      timer::TimerEntry* entry = timer::TimerSlab::Find(id);
      report(entry);
      report(timer::TimerChunk::Of(entry)->shard);
    }
    for (std::uint64_t id : timers) KillFiberTimer(id);
  };
  ExpectOnNodesOfGroups(LookInFibers(10, look), "timers");
  // Reused timer memory.
  ExpectOnNodesOfGroups(LookInFibers(10, look), "timers used again");
}

// Of descriptors, as the library takes them for each connection.
TEST_F(GuestMemory, SlotsOfDescriptorsAreOnTheirGroupsNodeThoughOthersGiveThemBack) {
  Start(OneGroupPerNode());
  for (const char* const what : {"slots", "slots used again"}) {
    std::mutex mutex;
    std::vector<io::FdSlot*> slots;
    const auto look = [&](auto report) {
      io::FdSlot* const slot = io::FdSlotPool::Take();
      report(slot);
      const std::scoped_lock lock(mutex);
      slots.push_back(slot);
    };
    ExpectOnNodesOfGroups(LookInFibers(100, look), what);
    for (io::FdSlot* slot : slots) io::FdSlotPool::Put(slot);  // By a plain thread, on one of the nodes.
  }
}

// FP2: of a thread that is moved, and of its loop, whose group has no node.
TEST_F(GuestMemory, SlotsOfDescriptorsOfAThreadAndItsLoopAreOnItsNode) {
  constexpr std::size_t kBatch = io::FdSlotPool::kBatch;
  std::thread([] {
    std::vector<io::FdSlot*> all;
    const auto expect_on = [&all](int node, std::size_t count, const char* what) {
      std::size_t elsewhere = 0;
      std::vector<const void*> addresses;
      for (std::size_t i = 0; i < count; ++i) {
        all.push_back(io::FdSlotPool::Take());
        addresses.push_back(all.back());
        if (io::FdSlotPool::HomeOf(*all.back()) != scheduling_group::NodeArenaOn(node)) ++elsewhere;
      }
      EXPECT_EQ(elsewhere, 0U) << what;
      for (int on : NodesOfPages(addresses)) elsewhere += on != node ? 1 : 0;
      EXPECT_EQ(elsewhere, 0U) << what;
    };
    const std::map<int, NodeFacts> nodes = NodesOfKernel();
    const int first = nodes.begin()->first;
    const int last = nodes.rbegin()->first;
    ASSERT_FALSE(numa::BindThread(nodes.at(first).cpus));
    const auto move = [&](int from, int to) {
      const io::FdSlotPool::Home home = scheduling_group::NodeArenaOn(from);
      const std::uint64_t visits = io::FdSlotPool::Visits(home);
      ASSERT_FALSE(numa::BindThread(nodes.at(to).cpus));
      do {  // It has the rest of a batch.
        all.push_back(io::FdSlotPool::Take());
      } while (io::FdSlotPool::HomeOf(*all.back()) == home);
      EXPECT_EQ(io::FdSlotPool::Visits(home), visits);
    };
    expect_on(first, 1, "a thread");
    move(first, last);
    expect_on(last, 2 * kBatch, "the thread that was moved");
    move(last, first);
    FiberLoop loop;
    loop.AddTask([&] { expect_on(first, 4 * kBatch, "its loop"); });
    loop.Run();
    expect_on(first, 4 * kBatch, "after the loop");
    for (io::FdSlot* slot : all) io::FdSlotPool::Put(slot);
  }).join();
}

TEST_F(GuestMemory, StacksAndFibersComeBackToTheirNodeAfterStealing) {
  RuntimeOptions options = OneGroupPerNode();
  options.cross_numa_work_stealing_ratio = 1;
  Start(options);
  int moved = 0;
  for (SchedulingGroup* loaded : Groups()) moved += MixFibersByStealing(loaded);
  EXPECT_GT(moved, 0) << "no fiber changed its group: nothing was tried";
  ExpectOnNodesOfGroups(Stacks(100), "stacks");
  ExpectOnNodesOfGroups(Entities(50), "entities");
  // All stacks went back to their pools: the rest is in the workers' caches.
  for (SchedulingGroup* group : Groups()) {
    EXPECT_LE(group->stacks().statistics().in_use, group->size() * 32) << "group " << group->id();
  }
}

// Its memory stays on its first node; the group in which it runs must not reuse it.
TEST_F(GuestMemory, AStolenFiberKeepsItsStackAndEntity) {
  RuntimeOptions options = OneGroupPerNode();
  options.cross_numa_work_stealing_ratio = 1;
  Start(options);
  const int home = NodeOf(*Groups().front());
  constexpr int kFibers = 100;
  std::atomic<int> stolen_running{0};
  std::atomic<int> strayed{0};
  FiberLatch done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    StartIn(Groups().front(), false, [&] {
      volatile int on_stack = 1;
      const int first = NodeOfPage(const_cast<const int*>(&on_stack));
      for (int step = 0; step < 5; ++step) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
        while (std::chrono::steady_clock::now() < until) on_stack = on_stack + 1;
        const SchedulingGroup* before = scheduling_group::CurrentGroup();
        scheduling_group::YieldCurrentFiber();
        if (scheduling_group::CurrentGroup() != before) stolen_running.fetch_add(1);
      }
      if (NodeOfPage(const_cast<const int*>(&on_stack)) != first) strayed.fetch_add(1);
      if (NodeOfPage(scheduling_group::CurrentFiber()) != home) strayed.fetch_add(1);
      done.CountDown();
    });
  }
  done.Wait();
  EXPECT_GT(stolen_running.load(), 0);
  EXPECT_EQ(strayed.load(), 0);
}

TEST_F(GuestMemory, IsOnItsNodeAgainWhenTheRuntimeStartsAgain) {
  RuntimeOptions options = OneGroupPerNode();
  options.cross_numa_work_stealing_ratio = 1;
  Start(options);
  MixFibersByStealing(Groups().back());
  Stop();
  Start(options);
  ExpectOnNodesOfGroups(Stacks(50), "stacks");
  ExpectOnNodesOfGroups(Entities(50), "entities");
}

}  // namespace
}  // namespace weft::guest
