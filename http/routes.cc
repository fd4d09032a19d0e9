// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/routes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/base/report/check.h"

namespace weft::http {

Routes& Routes::Add(std::string_view method, std::string_view path, Handler handler) {
  WEFT_CHECK(path.starts_with('/'), "http::Routes::Add(\"", path, "\"): a path begins with a slash");
  const bool is_new = paths_[std::string(path)].emplace(method, std::move(handler)).second;
  WEFT_CHECK(is_new, "http::Routes::Add(): ", method, ' ', path, " has a handler already");
  return *this;
}

// nullptr: none fits.
const Routes::Methods* Routes::MethodsOf(std::string_view path) const {
  if (const auto exact = paths_.find(path); exact != paths_.end()) return &exact->second;
  while (!path.empty()) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) break;
    if (const auto below = paths_.find(path.substr(0, slash + 1)); below != paths_.end()) return &below->second;
    path = path.substr(0, slash);
  }
  return nullptr;
}

void Routes::operator()(Request& request, Response& response) const {
  const Methods* const methods = MethodsOf(request.path());
  if (methods == nullptr) return Refuse(methods, request.method(), response);
  auto found = methods->find(request.method());
  if (found == methods->end() && request.method() == "HEAD") found = methods->find("GET");
  if (found == methods->end()) return Refuse(methods, request.method(), response);
  found->second(request, response);
}

// `methods`: of the path; nullptr: there is no such path.
void Routes::Refuse(const Methods* methods, std::string_view method, Response& response) {
  constexpr std::string_view kKnown[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                         "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  Fields fields{{"content-type", "text/plain"}};
  if (std::find(std::begin(kKnown), std::end(kKnown), method) == std::end(kKnown)) {
    static_cast<void>(response.Send(501, fields, "there is no such method\n"));
  } else if (methods == nullptr) {
    static_cast<void>(response.Send(404, fields, "there is nothing at this path\n"));
  } else {
    std::string allow;
    for (const auto& [name, handler] : *methods) {
      allow += (allow.empty() ? "" : ", ") + name;
      if (name == "GET" && !methods->contains("HEAD")) allow += ", HEAD";
    }
    fields.Add("allow", allow);
    static_cast<void>(response.Send(405, fields, "this path does not have this method\n"));
  }
}

}  // namespace weft::http
