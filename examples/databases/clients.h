// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// DatabaseClient: a connection of a client library that blocks, for database_load.cc.
#ifndef WEFT_EXAMPLES_DATABASES_CLIENTS_H_
#define WEFT_EXAMPLES_DATABASES_CLIENTS_H_

#include <memory>
#include <string>

namespace examples {

class DatabaseClient {
 public:
  virtual ~DatabaseClient() = default;

  // One query, for which the server waits as long as Connect() was told. False: it failed; a message is printed.
  virtual bool Query() = 0;

  // kind: "redis", "postgres", or "http": libcurl, to a URL with a slash at its end, below which "wait" answers 401
  // after server_ms (servers.py). nullptr: a message is printed.
  static std::unique_ptr<DatabaseClient> Connect(const std::string& kind, const std::string& server, double server_ms);
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_DATABASES_CLIENTS_H_
