// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpOptions: what DumpFibers() shows, and how (dump_fibers.h).
#ifndef WEFT_OBSERVE_DUMP_OPTIONS_H_
#define WEFT_OBSERVE_DUMP_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

struct DumpOptions {
  // Text for people, or a JSON object.
  enum class Format : std::uint8_t { kText, kJson };

  // What is written.
  Format format = Format::kText;
  // Terms that must all hold, separated by commas, each kind once; "": all fibers.
  //   name=PATTERN     as of files in a shell: name=worker*
  //   state=STATE      new, ready, running or parked; several: state=new|ready
  //   reason=REASON    of parked ones: mutex, join, channel_get, sleep ...; several: reason=mutex|shared_mutex
  //   age=TIME         of parked ones, for at least so long: age=500ms, age=3s, age=5m, age=1h
  //   group=NUMBER     or its name (--fiber_groups): group=batch
  //   id=NUMBER
  std::string filter = {};
  bool stacks = true;
  // Stacks of fibers that run, too: SIGURG to their threads, which may interrupt their system calls (dump_fibers.h).
  bool running_stacks = true;
  bool source_lines = true;  // reading debug information takes time: 0.1 s where it is large
  std::size_t most_frames = 64;
  std::size_t most_listed = 5;                             // text: fibers of a group that are named
  std::size_t most_groups = static_cast<std::size_t>(-1);  // text: groups that are shown, the largest first
};

}  // namespace weft

#endif  // WEFT_OBSERVE_DUMP_OPTIONS_H_
