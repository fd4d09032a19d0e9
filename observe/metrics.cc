// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/metrics.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "weft/base/report/check.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/cancel/cancel_counts.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/timer/callback/timer_census.h"
#include "weft/version.h"

namespace weft {
namespace {

using Labels = MetricsText::Labels;
using Value = MetricsText::Value;

bool IsName(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string NumberOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  return {digits, static_cast<std::size_t>(end - digits)};
}

// In a help text, and between the quotes of a label.
void AppendEscaped(std::string_view text, bool in_quotes, std::string* to) {
  for (const char c : text) {
    if (c == '\\' || (c == '"' && in_quotes)) to->push_back('\\');
    if (c == '\n') {
      to->append("\\n");
    } else {
      to->push_back(c);
    }
  }
}

Labels OfGroup(const GroupCounts& counts) {
  Labels labels = {{"group", std::to_string(counts.group)}};
  if (!counts.name.empty()) labels.emplace_back("name", counts.name);
  return labels;
}

// One value a group.
template <class Read>
std::vector<Value> Each(const std::vector<GroupCounts>& groups, Read read) {
  std::vector<Value> values;
  values.reserve(groups.size());
  for (const GroupCounts& counts : groups) values.push_back({OfGroup(counts), static_cast<double>(read(counts))});
  return values;
}

std::vector<Value> One(double value) { return {{{}, value}}; }

std::vector<Value> Steals(const std::vector<GroupCounts>& groups, std::uint64_t StealCounts::*count) {
  std::vector<Value> values;
  for (const GroupCounts& counts : groups) {
    for (const StealCounts& steal : counts.steals) {
      Labels labels = OfGroup(counts);
      labels.emplace_back("from", std::to_string(steal.group));
      labels.emplace_back("distance", std::to_string(steal.distance));
      values.push_back({std::move(labels), static_cast<double>(steal.*count)});
    }
  }
  return values;
}

}  // namespace

RuntimeMetrics Metrics() {
  RuntimeMetrics metrics;
  if (!IsRuntimeRunning()) return metrics;
  metrics.fibers = GetFiberCount();
  metrics.timers = timer::CountCallbackTimers();
  metrics.groups = GetSchedulingCounts();
  metrics.admission = GetAdmissionCounts();
  metrics.blocking = GetFiberBlockingCounts();
  metrics.cancellations = synchronization::CancelCounts::Of(synchronization::CancelReason::kCancelled);
  metrics.deadlines_passed = synchronization::CancelCounts::Of(synchronization::CancelReason::kDeadline);
  scheduling_group::Watchdog::Get().AddLongSlicesTo(&metrics.long_slices);
  return metrics;
}

std::string_view MetricsText::content_type() const noexcept {
  return format_ == MetricsFormat::kPrometheus ? "text/plain; version=0.0.4; charset=utf-8"
                                               : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void MetricsText::BeginFamily(std::string_view name, std::string_view type, std::string_view help) {
  WEFT_CHECK(IsName(name), "MetricsText: \"", name, "\" is no name of a metric: letters, digits and _");
  WEFT_CHECK(families_.emplace(name).second, "MetricsText: the family ", name, " is written twice");
  // Prometheus' own format has the name that its values have.
  const std::string_view suffix = format_ == MetricsFormat::kPrometheus && type == "counter" ? "_total" : "";
  text_.append("# HELP ").append(name).append(suffix).append(" ");
  AppendEscaped(help, /*in_quotes=*/format_ == MetricsFormat::kOpenMetrics, &text_);
  text_.append("\n# TYPE ").append(name).append(suffix).append(" ").append(type).append("\n");
  if (format_ != MetricsFormat::kOpenMetrics) return;
  for (const std::string_view unit : {"seconds", "bytes"}) {
    if (name.ends_with(unit)) text_.append("# UNIT ").append(name).append(" ").append(unit).append("\n");
  }
}

void MetricsText::Put(std::string_view name, const Labels& labels, std::string_view value) {
  text_.append(name);
  char before = '{';
  for (const auto& [label, text] : labels) {
    WEFT_CHECK(IsName(label), "MetricsText: \"", label, "\" is no name of a label: letters, digits and _");
    text_.push_back(std::exchange(before, ','));
    text_.append(label).append("=\"");
    AppendEscaped(text, /*in_quotes=*/true, &text_);
    text_.push_back('"');
  }
  if (!labels.empty()) text_.push_back('}');
  text_.append(" ").append(value).append("\n");
}

void MetricsText::Counter(std::string_view name, std::string_view help, const std::vector<Value>& values) {
  BeginFamily(name, "counter", help);
  const std::string total = std::string(name) + "_total";
  for (const Value& value : values) Put(total, value.labels, NumberOf(value.value));
}

void MetricsText::Gauge(std::string_view name, std::string_view help, const std::vector<Value>& values) {
  BeginFamily(name, "gauge", help);
  for (const Value& value : values) Put(name, value.labels, NumberOf(value.value));
}

void MetricsText::PutHistogram(std::string_view name, const Labels& labels,
                               const scheduling_group::WaitHistogram& histogram) {
  const std::string bucket = std::string(name) + "_bucket";
  Labels of_bucket = labels;
  of_bucket.emplace_back("le", "");
  // 1 us to 17 s, in steps of 4, where its own buckets begin.
  for (unsigned bits = 10; bits <= 34; bits += 2) {
    const std::chrono::nanoseconds limit(std::int64_t{1} << bits);
    of_bucket.back().second = NumberOf(std::chrono::duration<double>(limit).count());
    Put(bucket, of_bucket, std::to_string(histogram.FibersBelow(limit)));
  }
  of_bucket.back().second = "+Inf";
  Put(bucket, of_bucket, std::to_string(histogram.fibers()));
  Put(std::string(name) + "_sum", labels, NumberOf(std::chrono::duration<double>(histogram.Sum()).count()));
  Put(std::string(name) + "_count", labels, std::to_string(histogram.fibers()));
}

void MetricsText::AddTimersAndPolls(const std::vector<GroupCounts>& groups) {
  Counter("weft_timers_set", "Timers and time-outs of waits that were set, or set again.",
          Each(groups, [](const auto& g) { return g.timers.set; }));
  Counter("weft_timers_fired", "Those that have fired.", Each(groups, [](const auto& g) { return g.timers.fired; }));
  Gauge("weft_timers_armed", "Those that are set now.", Each(groups, [](const auto& g) { return g.timers.armed; }));
  BeginFamily("weft_timer_lateness_seconds", "histogram",
              "How late timers have fired, of those that fired together the first one, in steps of 33 us.");
  for (const GroupCounts& g : groups) PutHistogram("weft_timer_lateness_seconds", OfGroup(g), g.timers.lateness);
  Gauge("weft_descriptors", "Descriptors that fibers wait for, or have waited for, and that are open.",
        Each(groups, [](const auto& g) { return g.reactor.descriptors; }));
  Counter("weft_polls", "Polls for input and output that did not wait.",
          Each(groups, [](const auto& g) { return g.reactor.polls; }));
  Counter("weft_poll_waits", "Times that a worker went to sleep in a poll.",
          Each(groups, [](const auto& g) { return g.reactor.waits; }));
  Counter("weft_poll_events", "Descriptors that polls found ready.",
          Each(groups, [](const auto& g) { return g.reactor.events; }));
}

void MetricsText::AddAdmissionAndBlocking(const RuntimeMetrics& metrics) {
  const AdmissionCounts& admission = metrics.admission;
  Counter("weft_admissions", "Work that asked whether it may begin, by the answer.",
          {{{{"answer", "admitted"}}, static_cast<double>(admission.admitted)},
           {{{"answer", "refused_ready_wait"}}, static_cast<double>(admission.refused_ready_wait)},
           {{{"answer", "refused_fibers"}}, static_cast<double>(admission.refused_fibers)}});
  const io::BlockingCounts& blocking = metrics.blocking;
  Counter("weft_blocking_calls", "Calls that the pool for blocking calls has begun.",
          One(static_cast<double>(blocking.calls)));
  Counter("weft_blocking_threads_refused", "Times that the system would not make a thread for the pool.",
          One(static_cast<double>(blocking.threads_refused)));
  Gauge("weft_blocking_threads", "Threads of the pool.", One(static_cast<double>(blocking.threads)));
  Gauge("weft_blocking_running", "Calls that run.", One(static_cast<double>(blocking.running)));
  Gauge("weft_blocking_abandoned", "Calls that run, and whose callers have gone.",
        One(static_cast<double>(blocking.abandoned)));
  Gauge("weft_blocking_queued", "Calls that wait for a thread.", One(static_cast<double>(blocking.queued)));
  Gauge("weft_blocking_waiting_for_capacity", "Callers that wait for room in the pool's queue.",
        One(static_cast<double>(blocking.waiting_for_capacity)));
  Gauge("weft_blocking_longest_wait_seconds", "Of a call, until it began.",
        One(std::chrono::duration<double>(blocking.longest_wait).count()));
}

void MetricsText::Add(const RuntimeMetrics& metrics) {
  const auto& groups = metrics.groups;
  const auto sum = [&](std::uint64_t WorkerCounts::*count) {
    return Each(groups, [count](const GroupCounts& counts) { return counts.Sum().*count; });
  };
  Gauge("weft_info", "The version of Weft, which is always 1.", {{{{"version", WEFT_VERSION}}, 1}});
  Gauge("weft_fibers", "Fibers that are alive.", One(static_cast<double>(metrics.fibers)));
  Gauge("weft_workers", "Threads that run fibers.", Each(groups, [](const auto& g) { return g.workers.size(); }));
  Gauge("weft_fibers_ready", "Fibers that wait for a worker.", Each(groups, [](const auto& g) { return g.ready; }));
  Gauge("weft_stack_high_water_bytes", "Stack that a fiber has used, at most, of those that were recorded.",
        Each(groups, [](const auto& g) { return g.stack_high_water; }));
  Gauge("weft_stacks_in_use", "Stacks of fibers, of the default size, and those that workers keep at hand.",
        Each(groups, [](const auto& g) { return g.stacks_in_use; }));
  Gauge("weft_stacks_cached", "Stacks of that size that no fiber has, and that hold memory.",
        Each(groups, [](const auto& g) { return g.stacks_cached; }));
  Gauge("weft_timers", "Timers with callbacks that have been made and have not ended.",
        One(static_cast<double>(metrics.timers)));
  Counter("weft_fibers_begun", "Fibers that have run.", sum(&WorkerCounts::begun));
  Counter("weft_fibers_finished", "Fibers that have ended.", sum(&WorkerCounts::finished));
  Counter("weft_run_queue_overflows", "Fibers that became ready while the run queue was full.",
          Each(groups, [](const auto& g) { return g.overflowed; }));
  Gauge("weft_oldest_ready_seconds", "So long the fiber that has been ready the longest has waited, at least.",
        Each(groups, [](const auto& g) { return std::chrono::duration<double>(g.oldest_ready).count(); }));
  Counter("weft_starts_refused", "Starts of fibers, or of batches, for which the run queue was full for too long.",
          Each(groups, [](const auto& g) { return g.starts_refused; }));
  Counter("weft_switches", "Times that a worker has entered a fiber.", sum(&WorkerCounts::switches));
  Counter("weft_spins", "Times that a worker began to spin for work.", sum(&WorkerCounts::spins));
  Counter("weft_sleeps", "Times that a worker went to sleep.", sum(&WorkerCounts::sleeps));
  Counter("weft_wakes", "Times that a worker was woken for work.", sum(&WorkerCounts::wakes));
  Counter("weft_steal_attempts", "Looks for fibers of another group.", Steals(groups, &StealCounts::attempts));
  Counter("weft_steals", "Fibers that were taken from another group.", Steals(groups, &StealCounts::stolen_in));
  Counter("weft_adoptions", "Fibers of another group that a fiber of this one, with which they take turns, took in.",
          sum(&WorkerCounts::adopted));
  BeginFamily("weft_ready_wait_seconds", "histogram",
              "How long ready fibers have waited until a worker ran them: estimates.");
  for (const GroupCounts& g : groups) PutHistogram("weft_ready_wait_seconds", OfGroup(g), g.ready_wait);
  AddTimersAndPolls(groups);

  BeginFamily("weft_long_slice_seconds", "histogram",
              "How long fibers have run without a switch, of those that did for 10 ms or more, when it was over.");
  PutHistogram("weft_long_slice_seconds", {}, metrics.long_slices);
  Counter("weft_cancellations", "Scopes, tasks and fibers that were cancelled, by the reason.",
          {{{{"reason", "cancelled"}}, static_cast<double>(metrics.cancellations)},
           {{{"reason", "deadline"}}, static_cast<double>(metrics.deadlines_passed)}});

  AddAdmissionAndBlocking(metrics);
}

void MetricsText::Add(const std::vector<std::pair<std::string, io::TcpServer::Counts>>& servers) {
  using Counts = io::TcpServer::Counts;
  const auto each = [&](auto Counts::*count) {
    std::vector<Value> values;
    values.reserve(servers.size());
    for (const auto& [name, counts] : servers) {
      values.push_back({{{"server", name}}, static_cast<double>(counts.*count)});
    }
    return values;
  };
  Counter("weft_server_accepted", "Connections that were accepted.", each(&Counts::accepted));
  std::vector<Value> refused;
  for (const auto& [name, counts] : servers) {
    const auto by = [&, &server = name](std::string_view cause, std::uint64_t count) {
      refused.push_back({{{"server", server}, {"cause", std::string(cause)}}, static_cast<double>(count)});
    };
    const std::uint64_t known = counts.over_host_limit + counts.not_admitted + counts.not_started;
    by("host_limit", counts.over_host_limit);
    by("not_admitted", counts.not_admitted);
    by("not_started", counts.not_started);
    by("stopped", counts.refused > known ? counts.refused - known : 0);  // They are read one after the other.
  }
  Counter("weft_server_refused",
          "Connections that were refused: a host had too many, Options::admit said no, there was no fiber or memory for"
          " one, or the server had stopped.",
          refused);
  Counter("weft_server_timed_out", "Connections that have waited too long for a request.", each(&Counts::timed_out));
  Gauge("weft_server_open", "Connections that are open.", each(&Counts::open));
}

std::string MetricsText::Take() {
  if (format_ == MetricsFormat::kOpenMetrics) text_.append("# EOF\n");
  return std::move(text_);
}

}  // namespace weft
