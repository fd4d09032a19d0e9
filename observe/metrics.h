// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Metrics(): what the runtime has counted, as one snapshot; and as text that Prometheus reads, and what understands
// OpenMetrics.
// Sample:
//   routes.Add("GET", "/metrics", [&](http::Request&, http::Response& response) {
//     MetricsText text(MetricsFormat::kPrometheus);
//     text.Add(Metrics());
//     text.Add("api", server.counts());                                 // an io::TcpServer
//     text.Gauge("shop_baskets", "Baskets that are open.", {{{}, baskets}});
//     static_cast<void>(response.Send(200, {{"content-type", text.content_type()}}, text.Take()));
//   });
//
// Names begin with `weft_`; times are in seconds, memory in bytes. Counters begin at 0 when the runtime starts. What is
// of a scheduling group has the label `group`, and `name` if it has one (--fiber_groups). A histogram's waits are
// estimates (scheduling_group/watch/wait_samples.h says how they are sampled), its sum, too. docs/metrics.md lists all.
//
// Cost: Metrics() reads what workers count anyway: some microseconds a group and a worker. Nothing is counted for it.
//
// Who may call: Metrics(): any fiber and thread, at any time; before a runtime and after its end the groups are
// missing. MetricsText: one at a time. Errors: a name or label that the formats do not allow ends the process with a
// line; so does a family that is written twice. Values of labels may be any text.
#ifndef WEFT_OBSERVE_METRICS_H_
#define WEFT_OBSERVE_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/runtime.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/tcp_server.h"

namespace weft {

// A snapshot. Its parts are read one after the other, while the runtime goes on.
struct RuntimeMetrics {
  std::size_t fibers = 0;           // alive
  std::size_t timers = 0;           // with callbacks: set, or made and not enabled yet
  std::vector<GroupCounts> groups;  // empty: no runtime
  AdmissionCounts admission;        // fiber/fiber_limiter.h
  io::BlockingCounts blocking;      // the pool of io/fiber_blocking.h
  // Since the process began: scopes that were cancelled, and those whose deadlines have passed.
  std::uint64_t cancellations = 0;
  std::uint64_t deadlines_passed = 0;
  // How long fibers have run without a switch, of those that did for 10 ms or more: since the process began, and from
  // one look each 10 ms to another (scheduling_group/watch/watchdog.h).
  WaitHistogram long_slices;
};
// See above.
RuntimeMetrics Metrics();

// The text format 0.0.4 of Prometheus, or OpenMetrics 1.0.
enum class MetricsFormat : std::uint8_t { kPrometheus, kOpenMetrics };

// Puts a page of metrics together.
class MetricsText {
 public:
  // Names of labels and their values: {{"group", "0"}, {"from", "1"}}.
  using Labels = std::vector<std::pair<std::string_view, std::string>>;
  // One value of a family: the only one of these labels.
  struct Value {
    Labels labels;     // none: the family's only value
    double value = 0;  // also infinite, or not a number
  };

  // An empty page.
  explicit MetricsText(MetricsFormat format) : format_(format) {}

  // All of the runtime.
  void Add(const RuntimeMetrics& metrics);
  // A server, with the label `server`. All servers in one call.
  void Add(std::string_view name, const io::TcpServer::Counts& counts) { Add({{std::string(name), counts}}); }
  void Add(const std::vector<std::pair<std::string, io::TcpServer::Counts>>& servers);

  // Families of the program's own. A counter only grows; its name goes without the "_total" that is put behind it.
  void Counter(std::string_view name, std::string_view help, const std::vector<Value>& values);
  // Goes up and down. A name of a quantity ends with its unit: "_seconds", "_bytes".
  void Gauge(std::string_view name, std::string_view help, const std::vector<Value>& values);

  // For the field content-type of the answer.
  std::string_view content_type() const noexcept;
  // The page. Nothing is added afterwards.
  std::string Take();

 private:
  void BeginFamily(std::string_view name, std::string_view type, std::string_view help);
  void Put(std::string_view name, const Labels& labels, std::string_view value);
  void AddAdmissionAndBlocking(const RuntimeMetrics& metrics);
  void AddTimersAndPolls(const std::vector<GroupCounts>& groups);
  // One histogram; its family has begun.
  void PutHistogram(std::string_view name, const Labels& labels, const WaitHistogram& histogram);

  const MetricsFormat format_;
  std::string text_;
  std::set<std::string, std::less<>> families_;
};

}  // namespace weft

#endif  // WEFT_OBSERVE_METRICS_H_
