// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>

#include "weft/http/admin/json_writer.h"
#include "weft/http/admin/views.h"
#include "weft/observe/metrics.h"
#include "weft/version.h"

namespace weft::http {
namespace {

std::int64_t Nanoseconds(const timeval& time) { return (std::int64_t{time.tv_sec} * 1'000'000 + time.tv_usec) * 1'000; }

void PutProcess(JsonWriter& json) {
  rusage used{};
  static_cast<void>(::getrusage(RUSAGE_SELF, &used));
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  json.Key("process").Open('{').Field("pid", ::getpid());
  json.Field("cpu_ns", Nanoseconds(used.ru_utime) + Nanoseconds(used.ru_stime));
  json.Field("resident_bytes", resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))).Close('}');
}

void PutWorker(JsonWriter& json, const WorkerCounts& worker) {
  json.Open('{').Field("switches", worker.switches).Field("begun", worker.begun).Field("finished", worker.finished);
  json.Field("sleeps", worker.sleeps).Field("wakes", worker.wakes).Field("spins", worker.spins).Close('}');
}

// Fibers that have waited less than 1 us, 4 us ... 17 s (2^34 ns), and all.
void PutWaits(JsonWriter& json, const scheduling_group::WaitHistogram& waits) {
  json.Key("ready_wait").Open('{').Field("first_ns", 1 << 10).Key("below").Open('[');
  for (unsigned bits = 10; bits <= 34; bits += 2) {
    json.Put(waits.FibersBelow(std::chrono::nanoseconds(std::int64_t{1} << bits)));
  }
  json.Close(']').Field("fibers", waits.fibers()).Field("max_ns", waits.max().count()).Close('}');
}

void PutGroup(JsonWriter& json, const GroupCounts& group) {
  json.Open('{').Field("group", group.group).Field("name", group.name).Field("node", group.node);
  json.Field("ready", group.ready).Field("overflowed", group.overflowed);
  json.Field("stack_high_water", group.stack_high_water);
  json.Field("stolen_out", group.stolen_out_same_node + group.stolen_out_other_node);
  PutWaits(json, group.ready_wait);
  json.Key("workers").Open('[');
  for (const WorkerCounts& worker : group.workers) PutWorker(json, worker);
  json.Close(']').Key("steals").Open('[');
  for (const StealCounts& steal : group.steals) {
    json.Open('{').Field("group", steal.group).Field("distance", steal.distance).Field("every_n", steal.every_n);
    json.Field("attempts", steal.attempts).Field("stolen_in", steal.stolen_in).Close('}');
  }
  json.Close(']').Close('}');
}

}  // namespace

std::string OverviewJson(std::string_view title) {
  const RuntimeMetrics metrics = Metrics();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  JsonWriter json;
  json.Open('{').Field("title", title).Field("version", WEFT_VERSION);
  json.Field("now_ns", std::chrono::nanoseconds(now).count());
  PutProcess(json);
  json.Field("fibers", metrics.fibers).Key("groups").Open('[');
  for (const GroupCounts& group : metrics.groups) PutGroup(json, group);
  json.Close(']').Key("admission").Open('{').Field("admitted", metrics.admission.admitted);
  json.Field("refused_ready_wait", metrics.admission.refused_ready_wait);
  json.Field("refused_fibers", metrics.admission.refused_fibers).Close('}');
  json.Key("blocking").Open('{').Field("calls", metrics.blocking.calls).Field("threads", metrics.blocking.threads);
  json.Field("running", metrics.blocking.running).Field("queued", metrics.blocking.queued).Close('}').Close('}');
  return json.Take();
}

}  // namespace weft::http
