// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The commands of the server: what each does with a store, and what it answers.
//
// A new command is a function in commands.cc and a line in its table. The texts of answers and errors are those of
// Redis 7.0.
#ifndef WEFT_EXAMPLES_RESP_SERVER_COMMANDS_H_
#define WEFT_EXAMPLES_RESP_SERVER_COMMANDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "resp_server/reply_writer.h"
#include "resp_server/store.h"

namespace examples::resp {

// What commands need from the server that runs them. Any fiber.
class CommandHost {
 public:
  virtual Store& store() = 0;
  // The lines of INFO but those about the store.
  virtual std::string Info() = 0;
  // SHUTDOWN: begins it, and returns.
  virtual void Shutdown() = 0;

 protected:
  ~CommandHost() = default;
};

// A connection, as its commands see it.
struct Session {
  CommandHost* host;
  std::uint64_t id;
  ReplyWriter* reply;
  bool ends = false;  // after this command
};

// One request, with at least its name. May switch.
void ExecuteCommand(std::span<const std::string_view> arguments, Session* session);

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_COMMANDS_H_
