// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdminPages: pages for a browser that show what the process does: live plots, fibers and what they wait for, locks and
// their owners, traces and profiles of the last moments, CPUs and threads, metrics, flags.
// Sample:
//     http::AdminPages pages({.title = "shop"});
//     http::Routes routes;                          // of a server that only its operators reach; or, on a port of its
//     pages.AddTo(&routes);                         // own, http/admin_server.h
//     http::Server http(std::move(routes));
//
//     GET /admin/                    the pages; all that a browser needs is in the program
//     GET /admin/api/overview        counts of the scheduler and of the process, as JSON
//     GET /admin/api/fibers?filter=  DumpFibers() as JSON (observe/dump_fibers.h); stacks=0: without stacks
//     GET /admin/api/machine         CPUs, and the threads of the process
//     GET /admin/api/flags           flags of gflags, with their values
//     PUT /admin/api/flags           {"name=value"} as the body sets one, if Options::may_change
//     GET /admin/api/recorder        the level of the flight recorder (observe/flight_recorder.h)
//     PUT /admin/api/recorder        off, sampled or full as the body sets it, if Options::may_change
//     GET /admin/api/trace?ms=100    the last 100 ms, for https://ui.perfetto.dev
//     GET /admin/api/profile?what=   cpu, waits or locks of the last second (ms=1000), or contention since the process
//                                    began, as folded stacks; format=pprof
//     GET /admin/metrics             for Prometheus (observe/metrics.h)
//
// Who may see them: whoever can send a request to the server that has them. They show names of fibers, stacks and
// values of flags, so that server should be on loopback, or where only operators are. A request whose Host is neither
// an address nor "localhost" is refused (403), so that no page of another origin can read them through a name of its
// own that leads here; Options::any_host takes it. What a page of another site asks for is refused (403), too, where
// the browser says so (Sec-Fetch-Site): it could not read it, but have it made. A PUT asks for the field
// "x-weft-admin: 1", which a page of another origin cannot send.
//
// They read what the runtime counts and keeps anyway: while nobody looks, they cost nothing. A look at the overview
// costs some 100 us a second for each browser, a list of fibers what DumpFibers() says, a trace 4 us for each event.
// Traces and profiles are made on a thread of their own, one at a time: who asks until it has been sent waits for a
// second, and is told to ask again (503). They have 1,000,000 events at most (else 400: ask for fewer ms), some
// 0.3 GB.
//
// They are handlers, so their place is here, above observe/, which has what they show.
//
// Who may call: as Routes. Lifetime: an object outlives the servers that have its routes.
#ifndef WEFT_HTTP_ADMIN_PAGES_H_
#define WEFT_HTTP_ADMIN_PAGES_H_

#include <functional>
#include <string>
#include <string_view>

#include "weft/http/message.h"
#include "weft/http/routes.h"
#include "weft/observe/metrics.h"

namespace weft::http {

class AdminPages {
 public:
  // What the pages show and allow.
  struct Options {
    // Stands at the top of each page. Empty: the program's name.
    std::string title{};
    // Whether flags and the recorder's level may be set. The code that reads a flag decides when a new value takes
    // effect: the runtime reads most of its flags when it starts.
    bool may_change = false;
    // Whether a request may have any Host.
    bool any_host = false;
    // Adds families of the program's own to the metrics, behind those of the runtime. In a fiber.
    std::function<void(MetricsText*)> metrics{};
  };

  // Serves nothing yet.
  explicit AdminPages(Options options);
  AdminPages(const AdminPages&) = delete;
  AdminPages& operator=(const AdminPages&) = delete;

  // Adds all of them below `path`, which begins and ends with a slash.
  void AddTo(Routes* routes, std::string_view path = "/admin/");

 private:
  using Answer = void (AdminPages::*)(Request&, Response&);

  void Add(Routes* routes, std::string_view method, const std::string& path, Answer answer);
  void AnswerOverview(Request& request, Response& response);
  void AnswerFibers(Request& request, Response& response);
  void AnswerMachine(Request& request, Response& response);
  void AnswerFlags(Request& request, Response& response);
  void ChangeFlag(Request& request, Response& response);
  void AnswerRecorder(Request& request, Response& response);
  void ChangeRecorder(Request& request, Response& response);
  void AnswerTrace(Request& request, Response& response);
  void AnswerProfile(Request& request, Response& response);
  void AnswerMetrics(Request& request, Response& response);
  // False: it was refused. *body: at most 4096 bytes.
  bool ReadChange(Request& request, Response& response, std::string_view expected, std::string* body) const;

  Options options_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_PAGES_H_
