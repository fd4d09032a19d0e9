// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/admin_pages.h"

#include <errno.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/str_cat.h"
#include "weft/http/admin/assets.h"
#include "weft/http/admin/views.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/socket_address.h"
#include "weft/observe/dump/own_thread.h"
#include "weft/observe/dump_fibers.h"

namespace weft::http {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kPlain = "text/plain; charset=utf-8";
constexpr std::string_view kForeignHost = "this is shown to those who ask for an address, not for a name";
constexpr std::string_view kForeignPage = "this is not for a page of another site";

// A client that reads nothing keeps neither its answer nor the turn of others.
constexpr std::chrono::seconds kLongestSend{60};

// Of an error nobody is left to be told. disposition: "inline", or how to keep it.
void Send(Response& response, int status, std::string_view type, std::string_view body,
          std::string_view disposition = "inline") {
  Fields fields{{"content-type", type},
                {"content-disposition", disposition},
                {"cache-control", "no-store"},
                {"content-security-policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"},
                {"referrer-policy", "no-referrer"},
                {"x-content-type-options", "nosniff"}};
  if (status == 503) fields.Add("retry-after", "1");
  static_cast<void>(response.Send(status, fields, body, Deadline(kLongestSend)));
}

void Refuse(Response& response, int status, std::string_view why) {
  Send(response, status, kPlain, base::StrCat(why, "\n"));
}

// "localhost", "127.0.0.1:8081", "[::1]". None: a client of HTTP/1.0 that is no browser.
bool IsAddress(std::string_view host) {
  const std::string_view name = host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  return host.empty() || name == "localhost" || io::SocketAddress::Parse(base::StrCat(name, ":0")).has_value();
}

std::optional<unsigned char> HexDigit(char c) {
  unsigned char digit = 0;
  const auto [end, error] = std::from_chars(&c, &c + 1, digit, 16);
  return error == std::errc() ? std::optional(digit) : std::nullopt;
}

// What a browser says, if it thinks the address safe. None: a client that is no browser.
bool IsOfAnotherSite(std::string_view fetch_site) { return fetch_site == "cross-site" || fetch_site == "same-site"; }

// "a%20b+c" to "a b c". An escape that is none stays.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? HexDigit(text[i + 1]) : std::nullopt;
    const auto low = high ? HexDigit(text[i + 2]) : std::nullopt;
    plain += low ? static_cast<char>(*high * 16 + *low) : text[i] == '+' ? ' ' : text[i];
    if (low) i += 2;
  }
  return plain;
}

// Takes the first of "a=1&b=2" out of the query.
std::pair<std::string, std::string> TakeParameter(std::string_view* query) {
  const std::string_view item = query->substr(0, query->find('&'));
  query->remove_prefix(std::min(query->size(), item.size() + 1));
  const std::size_t equals = std::min(item.find('='), item.size());
  return {Unescaped(item.substr(0, equals)), Unescaped(item.substr(std::min(equals + 1, item.size())))};
}

// False: *why says what is wrong.
bool ReadDumpOptions(std::string_view query, DumpOptions* options, std::string* why) {
  while (!query.empty()) {
    const auto [name, value] = TakeParameter(&query);
    if (name == "filter") {
      options->filter = value;
    } else if (name == "stacks" && (value == "0" || value == "1")) {
      options->stacks = value == "1";
    } else {
      *why = base::StrCat(name, "=", value, ": expected filter=... or stacks=0 or 1");
      return false;
    }
  }
  return true;
}

// The same.
bool ReadRecordingQuery(std::string_view query, RecordingQuery* asked, std::string* why) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  while (!query.empty()) {
    const auto [name, value] = TakeParameter(&query);
    std::int64_t ms = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ms);
    const bool is_time = error == std::errc() && end == value.data() + value.size() && ms > 0 && ms <= kLongest.count();
    if (name == "what") {
      asked->what = value;
    } else if (name == "format") {
      asked->format = value;
    } else if (name == "ms" && is_time) {
      asked->last = std::chrono::milliseconds(ms);
    } else {
      *why = base::StrCat(name, "=", value, ": expected ms=1 to 3600000, what=... or format=...");
      return false;
    }
  }
  return true;
}

// make: Trace or Profile.
void SendDownload(Request& request, Response& response,
                  bool (*make)(const RecordingQuery&, AdminDownload*, std::string*)) {
  RecordingQuery query;
  std::string why;
  if (!ReadRecordingQuery(request.query(), &query, &why)) return Refuse(response, 400, why);
  const std::unique_lock turn(DownloadTurn(), std::chrono::seconds(1));  // until the answer is sent
  if (!turn) return Refuse(response, 503, "another trace or profile is being made: one at a time");
  AdminDownload download;
  bool made = false;
  try {
    observe::OnOwnThread([&] { made = make(query, &download, &why); });
  } catch (const std::bad_alloc&) {
    return Refuse(response, 503, "there is no memory for it");
  }
  if (!made) return Refuse(response, 400, why);
  Send(response, 200, download.type, download.text, base::StrCat("attachment; filename=\"", download.name, "\""));
}

}  // namespace

AdminPages::AdminPages(Options options) : options_(std::move(options)) {
  if (options_.title.empty()) options_.title = ::program_invocation_short_name;
}

void AdminPages::AddTo(Routes* routes, std::string_view path) {
  WEFT_CHECK(path.starts_with('/') && path.ends_with('/'), "AdminPages::AddTo(\"", path,
             "\"): a path that begins and ends with a slash");
  const std::string base(path);
  for (const AdminAsset& asset : AdminAssets()) {
    routes->Add("GET", base + std::string(asset.name),
                [this, asset, exact = base + std::string(asset.name)](Request& request, Response& response) {
                  // "/" alone stands for all below it.
                  if (request.path() != exact) return Refuse(response, 404, "there is no such page");
                  if (!options_.any_host && !IsAddress(request.authority())) return Refuse(response, 403, kForeignHost);
                  Send(response, 200, asset.type, asset.text);
                });
  }
  Add(routes, "GET", base + "api/overview", &AdminPages::AnswerOverview);
  Add(routes, "GET", base + "api/fibers", &AdminPages::AnswerFibers);
  Add(routes, "GET", base + "api/machine", &AdminPages::AnswerMachine);
  Add(routes, "GET", base + "api/flags", &AdminPages::AnswerFlags);
  Add(routes, "PUT", base + "api/flags", &AdminPages::ChangeFlag);
  Add(routes, "GET", base + "api/recorder", &AdminPages::AnswerRecorder);
  Add(routes, "PUT", base + "api/recorder", &AdminPages::ChangeRecorder);
  Add(routes, "GET", base + "api/trace", &AdminPages::AnswerTrace);
  Add(routes, "GET", base + "api/profile", &AdminPages::AnswerProfile);
  Add(routes, "GET", base + "metrics", &AdminPages::AnswerMetrics);
}

void AdminPages::Add(Routes* routes, std::string_view method, const std::string& path, Answer answer) {
  routes->Add(method, path, [this, answer](Request& request, Response& response) {
    if (!options_.any_host && !IsAddress(request.authority())) return Refuse(response, 403, kForeignHost);
    if (IsOfAnotherSite(request.headers().Find("sec-fetch-site"))) return Refuse(response, 403, kForeignPage);
    (this->*answer)(request, response);
  });
}

void AdminPages::AnswerOverview(Request&, Response& response) {
  Send(response, 200, kJson, OverviewJson(options_.title));
}

void AdminPages::AnswerFibers(Request& request, Response& response) {
  DumpOptions options{.format = DumpOptions::Format::kJson};
  std::string why;
  if (!ReadDumpOptions(request.query(), &options, &why)) return Refuse(response, 400, why);
  std::ostringstream out;
  const bool done = DumpFibers(out, options);
  Send(response, done ? 200 : 400, done ? kJson : kPlain, std::move(out).str());
}

void AdminPages::AnswerMachine(Request&, Response& response) {
  Send(response, 200, kJson, FiberBlocking([] { return MachineJson(); }));
}

void AdminPages::AnswerFlags(Request&, Response& response) {
  Send(response, 200, kJson, FlagsJson(options_.may_change));
}

bool AdminPages::ReadChange(Request& request, Response& response, std::string_view expected, std::string* body) const {
  constexpr std::size_t kMost = 4096;
  if (!options_.may_change) {
    Refuse(response, 403, "these pages are for reading only");
  } else if (request.headers().Find("x-weft-admin") != "1") {
    Refuse(response, 403, "the field x-weft-admin: 1 is missing");
  } else if (request.ReadAll(body, kMost)) {
    Refuse(response, 400, base::StrCat("expected ", expected));
  } else {
    return true;
  }
  return false;
}

void AdminPages::ChangeFlag(Request& request, Response& response) {
  std::string assignment;
  std::string why;
  if (!ReadChange(request, response, "name=value", &assignment)) return;
  if (!SetFlag(assignment, &why)) return Refuse(response, 400, why);
  AnswerFlags(request, response);
}

void AdminPages::AnswerRecorder(Request&, Response& response) {
  Send(response, 200, kJson, RecorderJson(options_.may_change));
}

void AdminPages::ChangeRecorder(Request& request, Response& response) {
  constexpr std::string_view kExpected = "off, sampled or full";
  std::string level;
  if (!ReadChange(request, response, kExpected, &level)) return;
  if (!SetRecorder(level)) return Refuse(response, 400, base::StrCat(level, ": expected ", kExpected));
  AnswerRecorder(request, response);
}

void AdminPages::AnswerTrace(Request& request, Response& response) { SendDownload(request, response, &Trace); }

void AdminPages::AnswerProfile(Request& request, Response& response) { SendDownload(request, response, &Profile); }

void AdminPages::AnswerMetrics(Request&, Response& response) {
  MetricsText text(MetricsFormat::kPrometheus);
  text.Add(Metrics());
  if (options_.metrics) options_.metrics(&text);
  const std::string_view type = text.content_type();
  Send(response, 200, type, text.Take());
}

}  // namespace weft::http
