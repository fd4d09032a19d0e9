// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The admin pages as any client sees them. admin_browser_test.py looks at them with a browser, and at the sick fibers
// of ServesABrowser, which runs only if WEFT_ADMIN_ADDRESS says where.

#include "weft/http/admin_pages.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/thread/thread_annotations.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_mutex.h"
#include "weft/fiber/this_fiber.h"
#include "weft/http/admin/json_writer.h"
#include "weft/http/admin/views.h"
#include "weft/http/admin_server.h"
#include "weft/io/fiber_blocking.h"
#include "weft/observe/flight_recorder.h"
#include "weft/observe/recorder/recording_data.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/http/http_fixture.h"

DEFINE_int32(weft_admin_test, 7, "A flag of the test's <own>.");

namespace weft::http {
namespace {

constexpr std::string_view kPagesAt = "/admin/";

class PagesAndClient {
 public:
  explicit PagesAndClient(AdminPages::Options options = {}) : pages_(std::move(options)), served_(RoutesOfPages()) {}

  std::string Ask(std::string_view method, std::string_view path, std::string_view fields = "Host: 127.0.0.1:80\r\n",
                  std::string_view body = {}) {
    if (!client_.has_value()) client_.emplace(served_);
    std::string request =
        std::string(method) + ' ' + std::string(kPagesAt) + std::string(path) + " HTTP/1.1\r\n" + std::string(fields);
    if (!body.empty()) request += "content-length: " + std::to_string(body.size()) + "\r\n";
    client_->Send(request + "\r\n" + std::string(body));
    return client_->Answer();
  }
  std::string Get(std::string_view path) { return Ask("GET", path); }

 private:
  Routes RoutesOfPages() {
    Routes routes;
    pages_.AddTo(&routes, kPagesAt);
    return routes;
  }

  AdminPages pages_;
  ListeningServer served_;
  std::optional<Client> client_;
};

bool HasStatus(std::string_view answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + ' ');
}

class AdminPagesTest : public io::IoTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(AdminPagesTest);

TEST_P(AdminPagesTest, AllThatABrowserNeedsIsThere) {
  InFiber([] {
    PagesAndClient pages;
    const std::string first = pages.Get("");
    EXPECT_TRUE(HasStatus(first, 200));
    EXPECT_EQ(Client::Field(first, "content-type"), "text/html; charset=utf-8");
    for (const std::string_view name : {"style.css", "app.js"}) {
      EXPECT_NE(first.find('"' + std::string(name) + '"'), std::string::npos);
      EXPECT_TRUE(HasStatus(pages.Get(name), 200)) << name;
    }
    // What scripts import, and nothing from elsewhere.
    for (const std::string_view name :
         {"app.js", "plot.js", "overview.js", "fibers.js", "locks.js", "recorder.js", "topology.js"}) {
      const std::string script = pages.Get(name);
      EXPECT_EQ(Client::Field(script, "content-type"), "text/javascript; charset=utf-8");
      EXPECT_EQ(script.find("https://"), std::string::npos);
      for (std::size_t at = 0; (at = script.find("from './", at)) != std::string::npos; ++at) {
        const std::string imported = script.substr(at + 8, script.find('\'', at + 8) - at - 8);
        EXPECT_TRUE(HasStatus(pages.Get(imported), 200)) << name << " needs " << imported;
      }
    }
    EXPECT_TRUE(HasStatus(pages.Get("none"), 404));
    EXPECT_TRUE(HasStatus(pages.Ask("POST", "api/overview"), 405));
  });
}

TEST_P(AdminPagesTest, FibersAreFoundByFilter) {
  InFiber([] {
    FiberEvent end;
    Fiber waits({.name = "waits \"long\""}, [&] { end.Wait(); });
    PagesAndClient pages;
    const std::string found = pages.Get("api/fibers?filter=name%3Dwaits*&stacks=0");
    EXPECT_EQ(Client::Field(found, "content-type"), "application/json");
    EXPECT_NE(found.find(R"("name": "waits \"long\"")"), std::string::npos) << found;
    EXPECT_EQ(Client::BodyOf(pages.Get("api/fibers?stacks=0&filter=name=nobody")).find("\"id\""), std::string::npos);
    for (const std::string_view bad : {"?filter=size%3D3", "?stacks=2", "?depth=1", "?filter=state%3Dasleep"}) {
      const std::string refused = pages.Get("api/fibers" + std::string(bad));
      EXPECT_TRUE(HasStatus(refused, 400)) << refused;
      const std::string line = Client::BodyOf(refused);
      EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    }
    end.Set();
    waits.Join();
  });
}

TEST_P(AdminPagesTest, CountsAndMachineAreShown) {
  InFiber([] {
    PagesAndClient pages({.title = "a \"shop\"\n", .metrics = [](MetricsText* text) {
                            text->Gauge("shop_baskets", "Baskets that are open.", {{{}, 3}});
                          }});
    const std::string overview = pages.Get("api/overview");
    EXPECT_NE(overview.find(R"({"title":"a \"shop\"\u000a","version":")"), std::string::npos) << overview;
    EXPECT_NE(overview.find("\"pid\":" + std::to_string(::getpid()) + ','), std::string::npos);
    EXPECT_NE(overview.find(R"("groups":[{"group":0,)"), std::string::npos);
    const std::string machine = pages.Get("api/machine");
    EXPECT_NE(machine.find(R"("cpus":[{"cpu":0,)"), std::string::npos) << machine;
    // Not FiberWorker_0_0, which may not have begun.
    EXPECT_NE(machine.find(R"("name":"FiberWorker_0_)"), std::string::npos) << machine;
    const std::string metrics = pages.Get("metrics");
    EXPECT_NE(metrics.find("\nweft_fibers "), std::string::npos);
    EXPECT_NE(metrics.find("\nshop_baskets 3\n"), std::string::npos);
  });
}

TEST_P(AdminPagesTest, PagesOfOtherOriginsReadNothing) {
  InFiber([] {
    for (const bool any : {false, true}) {
      PagesAndClient pages({.any_host = any});
      for (const std::string_view path : {"", "app.js", "api/overview", "api/flags"}) {
        for (const std::string_view host :
             {"localhost", "localhost:80", "127.0.0.1", "[::1]:80", "[::1]", "10.0.0.1:80"}) {
          EXPECT_TRUE(HasStatus(pages.Ask("GET", path, "Host: " + std::string(host) + "\r\n"), 200)) << host;
        }
        for (const std::string_view host :
             {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "1.2.3", ":80"}) {
          EXPECT_TRUE(HasStatus(pages.Ask("GET", path, "Host: " + std::string(host) + "\r\n"), any ? 200 : 403))
              << host;
        }
      }
    }
  });
}

TEST_P(AdminPagesTest, FlagsAreSetOnlyIfTheyMayBe) {
  InFiber([] {
    const auto put = [](PagesAndClient& pages, std::string_view assignment,
                        std::string_view field = "X-Weft-Admin: 1\r\n") {
      return pages.Ask("PUT", "api/flags", "Host: localhost\r\n" + std::string(field), assignment);
    };
    PagesAndClient reading;
    EXPECT_NE(reading.Get("api/flags")
                  .find(R"("name":"weft_admin_test","type":"int32","value":"7","default":"7",)"
                        R"("is_default":true,"description":"A flag of the test's <own>.")"),
              std::string::npos);
    EXPECT_TRUE(HasStatus(put(reading, "weft_admin_test=8"), 403));
    PagesAndClient changing({.may_change = true});
    EXPECT_TRUE(HasStatus(put(changing, "weft_admin_test=8", ""), 403));
    for (const auto& [assignment, why] : std::vector<std::pair<std::string, std::string>>{
             {"weft_admin_test", "expected name=value"},
             {"no_such=8", "there is no flag --no_such"},
             {"weft_admin_test=many", "--weft_admin_test=many: this is no valid int32 for it"},
             {"fiber_groups=a:1", "--fiber_groups is a string, which cannot change while the program runs"},
             {"flagfile=/dev/null", "--flagfile is a string, which cannot change while the program runs"}}) {
      const std::string refused = put(changing, assignment);
      EXPECT_TRUE(HasStatus(refused, 400)) << refused;
      EXPECT_EQ(Client::BodyOf(refused), why + '\n');
    }
    EXPECT_EQ(FLAGS_weft_admin_test, 7);
    EXPECT_TRUE(HasStatus(put(changing, "weft_admin_test=8"), 200));
    EXPECT_EQ(FLAGS_weft_admin_test, 8);
    FLAGS_weft_admin_test = 7;
  });
}

// The level is as it was afterwards.
class RecordedLevel {
 public:
  RecordedLevel() = default;
  ~RecordedLevel() { SetRecorderLevel(level_); }
  RecordedLevel(const RecordedLevel&) = delete;
  RecordedLevel& operator=(const RecordedLevel&) = delete;

 private:
  const RecorderLevel level_ = GetRecorderLevel();
};

TEST_P(AdminPagesTest, WhatWasRecordedIsKept) {
  InFiber([] {
    const RecordedLevel level;
    SetRecorderLevel(RecorderLevel::kFull);
    Fiber({.name = "early bird"}, [] { Mark("a mark of the test"); }).Join();
    PagesAndClient pages;
    const std::string file = "attachment; filename=\"weft-" + std::to_string(::getpid()) + '.';
    const std::string trace = pages.Get("api/trace?ms=60000");
    EXPECT_TRUE(HasStatus(trace, 200)) << trace;
    EXPECT_EQ(Client::Field(trace, "content-type"), "application/json");
    EXPECT_EQ(Client::Field(trace, "content-disposition"), file + "trace.json\"");
    EXPECT_NE(Client::BodyOf(trace).find("\"a mark of the test\""), std::string::npos);
    EXPECT_TRUE(Client::BodyOf(pages.Get("api/trace")).starts_with('{')) << "the last 100 ms";
    const std::string cpu = pages.Get("api/profile?what=cpu&ms=60000");
    EXPECT_EQ(Client::Field(cpu, "content-disposition"), file + "cpu.folded\"");
    EXPECT_NE(Client::BodyOf(cpu).find("early bird "), std::string::npos) << cpu;
    const std::string waits = pages.Get("api/profile?ms=60000&format=pprof&what=waits");
    EXPECT_EQ(Client::Field(waits, "content-type"), "application/octet-stream");
    EXPECT_EQ(Client::Field(waits, "content-disposition"), file + "waits.pb\"");
    EXPECT_NE(Client::BodyOf(waits).find("nanoseconds"), std::string::npos);
    EXPECT_TRUE(HasStatus(pages.Get("api/profile?what=locks"), 200));
    const std::string contention = pages.Get("api/profile?what=contention");
    EXPECT_TRUE(HasStatus(contention, 200));
    EXPECT_EQ(Client::Field(contention, "content-disposition"), file + "contention.folded\"");
    for (const auto& [path, why] : std::vector<std::pair<std::string, std::string>>{
             {"trace?ms=0", "ms=0: expected ms=1 to 3600000, what=... or format=..."},
             {"trace?ms=99999999", "ms=99999999: expected ms=1 to 3600000, what=... or format=..."},
             {"trace?s=1", "s=1: expected ms=1 to 3600000, what=... or format=..."},
             {"profile", "what=: expected cpu, waits, locks or contention"},
             {"profile?what=heap", "what=heap: expected cpu, waits, locks or contention"},
             {"profile?what=cpu&format=svg", "format=svg: expected folded or pprof"}}) {
      const std::string refused = pages.Get("api/" + path);
      EXPECT_TRUE(HasStatus(refused, 400)) << refused;
      EXPECT_EQ(Client::BodyOf(refused), why + '\n');
    }
    SetRecorderLevel(RecorderLevel::kOff);
    std::string nothing;
    do {
      nothing = pages.Get("api/profile?what=cpu&ms=1");
    } while (HasStatus(nothing, 200));  // The millisecond of `full` is not over.
    EXPECT_TRUE(HasStatus(nothing, 400)) << nothing;
    EXPECT_NE(nothing.find("what=cpu needs the recorder's level full"), std::string::npos) << nothing;
  });
}

TEST_P(AdminPagesTest, ARecordingOfTooManyEventsIsRefused) {
  InFiber([] {
    const RecordedLevel level;
    SetRecorderLevel(RecorderLevel::kSampled);
    for (int i = 0; i < 4; ++i) Mark("two events");
    RecordingQuery query{.last = std::chrono::hours(1), .what = "waits", .most_events = 7};
    for (const auto make : {&Trace, &Profile}) {
      AdminDownload download;
      std::string why;
      EXPECT_FALSE(make(query, &download, &why));
      EXPECT_EQ(why, "there are more than 7 events: ask for fewer ms");
      EXPECT_EQ(download.text, "");
    }
    EXPECT_EQ(Recording(std::make_shared<const observe::RecordingData>(observe::ReadRings(std::chrono::hours(1), 7)))
                  .events(),
              8U)
        << "no more are copied";
  });
}

TEST_P(AdminPagesTest, OneDownloadIsMadeAtATime) {
  InFiber([] {
    PagesAndClient pages;
    {
      const std::scoped_lock others(DownloadTurn());
      const std::string refused = pages.Get("api/trace");
      EXPECT_TRUE(HasStatus(refused, 503)) << refused;
      EXPECT_EQ(Client::Field(refused, "retry-after"), "1");
    }
    EXPECT_TRUE(HasStatus(pages.Get("api/profile?what=none"), 400));
    EXPECT_TRUE(HasStatus(pages.Get("api/trace"), 200));
  });
}

TEST_P(AdminPagesTest, DownloadsComeThoughTheBlockingPoolHangs) {
  InFiber([] {
    FiberEvent end;
    std::vector<Fiber> blocked;
    while (io::ProcessBlockingPool().counts().queued == 0) {
      blocked.emplace_back(Fiber([&end] { FiberBlocking([&end] { end.Wait(); }); }));
      FiberYield();
    }
    PagesAndClient pages;
    EXPECT_TRUE(HasStatus(pages.Get("api/trace"), 200));
    EXPECT_TRUE(HasStatus(pages.Get("api/profile?what=contention"), 200));
    end.Set();
    for (Fiber& fiber : blocked) fiber.Join();
  });
}

TEST_P(AdminPagesTest, PagesOfOtherSitesHaveNothingMade) {
  InFiber([] {
    PagesAndClient pages({.any_host = true});
    for (const std::string_view path : {"api/trace", "api/profile?what=waits", "api/fibers?stacks=0", "api/overview"}) {
      for (const auto& [site, status] : std::vector<std::pair<std::string, int>>{
               {"cross-site", 403}, {"same-site", 403}, {"same-origin", 200}, {"none", 200}}) {
        EXPECT_TRUE(HasStatus(pages.Ask("GET", path, "Host: localhost\r\nSec-Fetch-Site: " + site + "\r\n"), status))
            << path << ' ' << site;
      }
    }
    EXPECT_TRUE(HasStatus(pages.Ask("GET", "", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n"), 200)) << "a link";
  });
}

TEST_P(AdminPagesTest, TheRecordersLevelIsSetOnlyIfItMayBe) {
  InFiber([] {
    const RecordedLevel level;
    SetRecorderLevel(RecorderLevel::kSampled);
    const auto put = [](PagesAndClient& pages, std::string_view body, std::string_view field = "X-Weft-Admin: 1\r\n") {
      return pages.Ask("PUT", "api/recorder", "Host: localhost\r\n" + std::string(field), body);
    };
    PagesAndClient reading;
    EXPECT_TRUE(HasStatus(put(reading, "full"), 403));
    EXPECT_EQ(GetRecorderLevel(), RecorderLevel::kSampled);
    EXPECT_EQ(Client::BodyOf(reading.Get("api/recorder")), R"({"level":"sampled","may_change":false})");
    PagesAndClient changing({.may_change = true});
    EXPECT_TRUE(HasStatus(put(changing, "full", ""), 403));
    EXPECT_EQ(Client::BodyOf(put(changing, "much")), "much: expected off, sampled or full\n");
    EXPECT_EQ(GetRecorderLevel(), RecorderLevel::kSampled);
    EXPECT_EQ(Client::BodyOf(put(changing, "full")), R"({"level":"full","may_change":true})");
    EXPECT_EQ(GetRecorderLevel(), RecorderLevel::kFull);
  });
}

TEST_P(AdminPagesTest, TheServerListensWhereItMay) {
  InFiber([] {
    std::string why;
    AdminServer server(AdminServer::Options{});
    for (const auto& [address, line] : std::vector<std::pair<std::string, std::string>>{
             {"here", "here: expected 127.0.0.1:port, [::1]:port or unix:/path"},
             {"0.0.0.0:0",
              "0.0.0.0:0: others can reach this address, and would see all of the process; this has not "
              "been allowed"},
             {"[::]:0",
              "[::]:0: others can reach this address, and would see all of the process; this has not been "
              "allowed"}}) {
      EXPECT_FALSE(server.Listen(address, &why));
      EXPECT_EQ(why, line);
    }
    ASSERT_TRUE(server.Listen("127.0.0.1:0", &why)) << why;
    const std::string url = server.url();
    const std::string address = url.substr(7, url.size() - 8);
    EXPECT_EQ(url, "http://" + address + '/');
    AdminServer second(AdminServer::Options{});
    EXPECT_FALSE(second.Listen(address, &why));
    EXPECT_EQ(why, "cannot listen on " + address + ": Address already in use");
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(*io::SocketAddress::Parse(address), io::Soon()));
    ASSERT_TRUE(stream.WriteAll("GET / HTTP/1.0\r\n\r\n", io::Soon()).ok());
    char begin[16];
    ASSERT_EQ(stream.ReadAll(begin, sizeof(begin), io::Soon()).bytes, sizeof(begin));
    EXPECT_TRUE(HasStatus({begin, sizeof(begin)}, 200));
    server.Stop();
    AdminServer open(AdminServer::Options{.any_address = true});
    EXPECT_TRUE(open.Listen("0.0.0.0:0", &why)) << why;
  });
}

TEST_P(AdminPagesTest, ACancelledFiberEndsTheServerRegularly) {
  InFiber([] {
    CancelScope scope;
    EXPECT_TRUE(scope.Run([&] {
      AdminServer server(AdminServer::Options{});
      std::string why;
      ASSERT_TRUE(server.Listen("127.0.0.1:0", &why)) << why;
      ASSERT_TRUE(server.Start());
      scope.Cancel();
    }));
  });
}

TEST(JsonWriterTest, NestsAndEscapes) {
  JsonWriter json;
  json.Open('{').Field("a", 1).Key("b").Open('[').Put("x\t\"\\").Put(true).Open('{').Close('}').Close(']');
  json.Field("c", std::string("ä")).Close('}');
  EXPECT_EQ(json.Take(), R"({"a":1,"b":["x\u0009\"\\",true,{}],"c":"ä"})");
}

// --- For admin_browser_test.py ---

// Two that wait for each other's mutex; ten that wait for one of these; five that sleep.
class SickFibers {
 public:
  SickFibers() {
    for (int i = 0; i < 2; ++i) {
      fibers_.emplace_back(Fiber({.name = "crossed " + std::to_string(i)}, [this, i] {
        LockForEver(mutexes_[i]);
        locked_[i].Set();
        locked_[1 - i].Wait();
        LockForEver(mutexes_[1 - i]);
      }));
    }
    locked_[0].Wait();
    for (int i = 0; i < 10; ++i) {
      fibers_.emplace_back(Fiber({.name = "late " + std::to_string(i)}, [this] { LockForEver(mutexes_[0]); }));
    }
    for (int i = 0; i < 5; ++i) {
      fibers_.emplace_back(Fiber({.name = "sleeper"}, [] { FiberSleepFor(std::chrono::hours(1)); }));
    }
  }

 private:
  static void LockForEver(FiberMutex& mutex) WEFT_NO_THREAD_SAFETY_ANALYSIS { mutex.lock(); }

  FiberMutex mutexes_[2];
  FiberEvent locked_[2];
  std::vector<Fiber> fibers_;
};

// Ends by _exit(): the fibers never do.
TEST(AdminPagesBrowserTest, ServesABrowser) {
  const char* const address = std::getenv("WEFT_ADMIN_ADDRESS");
  if (address == nullptr) GTEST_SKIP() << "for admin_browser_test.py";
  fiber::RuntimeOf runtime(fiber::Shape{2, 2});
  Fiber([&] {
    SickFibers sick;
    AdminServer admin({.pages = {.title = "sick", .may_change = true}});
    std::string why;
    if (!admin.Listen(address, &why) || !admin.Start()) ::_exit(1);
    std::cout << admin.url() << std::endl;
    FiberBlocking([] {
      char byte = 0;
      return ::read(STDIN_FILENO, &byte, 1);  // The end, when the script has ended.
    });
    ::_exit(0);
  }).Join();
}

}  // namespace
}  // namespace weft::http
