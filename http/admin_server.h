// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdminServer: the pages of http/admin_pages.h on a port of their own.
// Sample:
//     http::AdminServer admin({.pages = {.title = "shop"}});
//     std::string why;
//     if (!admin.Listen("127.0.0.1:8081", &why)) return Fail(why);   // before StartRuntime(), or in a runtime
//     ...
//     if (!admin.Start()) ...                                        // in a runtime
//     std::cout << admin.url() << std::endl;
//     ...
//     admin.Stop();                                                  // before TerminateRuntime()
//
// It listens on loopback, or a Unix socket: another address is refused, unless Options::any_address says that whoever
// reaches it may see the pages.
//
// Who may call: one fiber or thread at a time. Stop() waits, a second at most, for requests that have begun.
#ifndef WEFT_HTTP_ADMIN_SERVER_H_
#define WEFT_HTTP_ADMIN_SERVER_H_

#include <optional>
#include <string>
#include <string_view>

#include "weft/http/admin_pages.h"
#include "weft/http/server.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"

namespace weft::http {

class AdminServer {
 public:
  // Of the pages, and where they may be served.
  struct Options {
    // With any_address they may have any Host, too.
    AdminPages::Options pages{};
    // Whether Listen() takes addresses that others can reach.
    bool any_address = false;
  };

  // Listens nowhere yet.
  explicit AdminServer(Options options);
  // As Stop().
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // Takes an address like 127.0.0.1:8081, [::1]:8081 or unix:/path; port 0 lets the kernel choose. False: *why is a
  // line that says why.
  [[nodiscard]] bool Listen(std::string_view address, std::string* why);
  // Begins to serve. False: the runtime starts no more fibers. Once, after Listen().
  [[nodiscard]] bool Start();
  // Ends it.
  void Stop();

  // "http://127.0.0.1:41234/", where it listens.
  std::string url() const;

 private:
  const Options options_;
  AdminPages pages_;
  Server http_;
  io::TcpListener listener_;
  std::optional<io::TcpServer> server_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_SERVER_H_
