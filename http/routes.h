// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Routes: a table of paths: which handler answers which request.
// Sample:
//     http::Routes routes;
//     routes.Add("GET", "/hello", [](auto&, auto& response) { static_cast<void>(response.Send(200, {}, "hello\n")); });
//     routes.Add("POST", "/items/", &AddItem);         // and all paths below it
//     http::Server http(std::move(routes));
//
// A path that ends with a slash stands for all that begin with it; the longest that fits counts, and an exact one
// before those. "/" fits all. GET answers HEAD, too, unless HEAD has a handler of its own. No path fits: 404; the path
// has no such method: 405, with the field `allow`; HTTP has no such method (RFC 9110, and PATCH): 501. Paths are
// compared as they were sent, without the query, byte by byte: what is written with %xx is another path.
//
// Who may call: Add(): whoever makes it, before the Server has it. The call: many fibers at the same time.
// Errors: Add() of what is there already, and of a path that does not begin with a slash, ends the process with a line.
#ifndef WEFT_HTTP_ROUTES_H_
#define WEFT_HTTP_ROUTES_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "weft/http/message.h"

namespace weft::http {

class Routes {
 public:
  // As Server::Handler.
  using Handler = std::function<void(Request&, Response&)>;

  // The path and the method have no handler yet.
  Routes& Add(std::string_view method, std::string_view path, Handler handler);
  // A Server's handler.
  void operator()(Request& request, Response& response) const;

 private:
  using Methods = std::map<std::string, Handler, std::less<>>;

  const Methods* MethodsOf(std::string_view path) const;
  static void Refuse(const Methods* methods, std::string_view method, Response& response);

  std::map<std::string, Methods, std::less<>> paths_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_ROUTES_H_
