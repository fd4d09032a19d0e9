// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/commands.h"

#include <fnmatch.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "resp_server/numbers.h"

namespace examples::resp {
namespace {

using std::chrono::milliseconds;
using Arguments = std::span<const std::string_view>;  // the first is the command's name

constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kSyntaxError = "ERR syntax error";

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

void ReplyValue(const ValueRef& value, ReplyWriter* reply) {
  if (value) {
    reply->Bulk(value->bytes());
  } else {
    reply->Null();
  }
}

void ReplyWrongArity(std::string_view name, ReplyWriter* reply) {
  reply->Error("ERR wrong number of arguments for '" + Lower(name) + "' command");
}

// `command`: in capital letters.
void ReplyUnknownSubcommand(const std::string& command, std::string_view subcommand, ReplyWriter* reply) {
  constexpr std::size_t kShown = 128;
  reply->Error("ERR unknown subcommand '" + std::string(subcommand.substr(0, kShown)) + "'. Try " + command + " HELP.");
}

// --- Strings ---

void Get(Arguments arguments, Session* session) {
  ReplyValue(session->host->store().Get(arguments[1]), session->reply);
}

// `after` units of `unit` from now. Nothing: that time cannot be represented.
std::optional<Store::TimePoint> TimeAfter(std::int64_t after, milliseconds unit) {
  std::int64_t ms = 0;
  const auto now = std::chrono::steady_clock::now();
  const auto most = std::chrono::duration_cast<milliseconds>(Store::TimePoint::max() - now).count();
  if (__builtin_mul_overflow(after, unit.count(), &ms) || ms > most || ms < -most) return std::nullopt;
  return now + milliseconds(ms);
}

// SET key value [NX | XX] [EX seconds | PX milliseconds | KEEPTTL]
void Set(Arguments arguments, Session* session) {
  Store::SetOptions options;
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    const bool no_expiry_yet = !options.expires_at && !options.keep_expiry;
    if (EqualsIgnoringCase(option, "NX") && options.when == Store::When::kAlways) {
      options.when = Store::When::kIfAbsent;
    } else if (EqualsIgnoringCase(option, "XX") && options.when == Store::When::kAlways) {
      options.when = Store::When::kIfPresent;
    } else if (EqualsIgnoringCase(option, "KEEPTTL") && no_expiry_yet) {
      options.keep_expiry = true;
    } else if ((EqualsIgnoringCase(option, "EX") || EqualsIgnoringCase(option, "PX")) && no_expiry_yet &&
               i + 1 < arguments.size()) {
      std::int64_t after = 0;
      if (!ParseNumber(arguments[++i], &after)) return session->reply->Error(kNotAnInteger);
      if (after > 0)
        options.expires_at = TimeAfter(after, milliseconds(option[0] == 'E' || option[0] == 'e' ? 1000 : 1));
      if (!options.expires_at) return session->reply->Error("ERR invalid expire time in 'set' command");
    } else {
      return session->reply->Error(kSyntaxError);
    }
  }
  if (session->host->store().Set(arguments[1], Value::Make(arguments[2]), options)) {
    session->reply->Ok();
  } else {
    session->reply->Null();
  }
}

void MGet(Arguments arguments, Session* session) {
  const std::vector<ValueRef> values = session->host->store().Get(arguments.subspan(1));
  session->reply->Array(values.size());
  for (const ValueRef& value : values) ReplyValue(value, session->reply);
}

void MSet(Arguments arguments, Session* session) {
  if (arguments.size() % 2 == 0) return ReplyWrongArity(arguments[0], session->reply);
  std::vector<std::string_view> keys;
  std::vector<ValueRef> values;
  keys.reserve(arguments.size() / 2);
  values.reserve(arguments.size() / 2);
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    keys.push_back(arguments[i]);
    values.push_back(Value::Make(arguments[i + 1]));
  }
  session->host->store().Set(keys, values);
  session->reply->Ok();
}

void AddNumber(std::string_view key, std::int64_t number, Session* session) {
  std::int64_t sum = 0;
  switch (session->host->store().Add(key, number, &sum)) {
    case Store::AddResult::kDone:
      return session->reply->Integer(sum);
    case Store::AddResult::kNotANumber:
      return session->reply->Error(kNotAnInteger);
    case Store::AddResult::kOverflow:
      return session->reply->Error("ERR increment or decrement would overflow");
  }
}

void Incr(Arguments arguments, Session* session) { AddNumber(arguments[1], 1, session); }

void Decr(Arguments arguments, Session* session) { AddNumber(arguments[1], -1, session); }

void IncrBy(Arguments arguments, Session* session) {
  std::int64_t number = 0;
  if (!ParseNumber(arguments[2], &number)) return session->reply->Error(kNotAnInteger);
  AddNumber(arguments[1], number, session);
}

void DecrBy(Arguments arguments, Session* session) {
  std::int64_t number = 0;
  if (!ParseNumber(arguments[2], &number)) return session->reply->Error(kNotAnInteger);
  if (number == std::numeric_limits<std::int64_t>::min()) {
    return session->reply->Error("ERR decrement would overflow");
  }
  AddNumber(arguments[1], -number, session);
}

// --- Keys ---

void Del(Arguments arguments, Session* session) {
  session->reply->Integer(static_cast<std::int64_t>(session->host->store().Erase(arguments.subspan(1))));
}

void Exists(Arguments arguments, Session* session) {
  session->reply->Integer(static_cast<std::int64_t>(session->host->store().CountExisting(arguments.subspan(1))));
}

void ExpireIn(Arguments arguments, milliseconds unit, Session* session) {
  std::int64_t after = 0;
  if (!ParseNumber(arguments[2], &after)) return session->reply->Error(kNotAnInteger);
  if (arguments.size() > 3) return session->reply->Error("ERR Unsupported option " + std::string(arguments[3]));
  const auto at = TimeAfter(after, unit);
  if (!at) return session->reply->Error("ERR invalid expire time in '" + Lower(arguments[0]) + "' command");
  session->reply->Integer(session->host->store().ExpireAt(arguments[1], *at) ? 1 : 0);
}

void Expire(Arguments arguments, Session* session) { ExpireIn(arguments, milliseconds(1000), session); }

void PExpire(Arguments arguments, Session* session) { ExpireIn(arguments, milliseconds(1), session); }

// -2: no such key; -1: it does not expire.
std::int64_t MillisecondsLeft(std::string_view key, Session* session) {
  const std::optional<weft::Deadline> expiry = session->host->store().ExpiryOf(key);
  if (!expiry) return -2;
  if (expiry->is_none()) return -1;
  return std::chrono::ceil<milliseconds>(expiry->remaining()).count();
}

void Ttl(Arguments arguments, Session* session) {
  const std::int64_t left = MillisecondsLeft(arguments[1], session);
  session->reply->Integer(left < 0 ? left : (left + 500) / 1000);
}

void PTtl(Arguments arguments, Session* session) { session->reply->Integer(MillisecondsLeft(arguments[1], session)); }

void DbSize(Arguments /*arguments*/, Session* session) {
  session->reply->Integer(static_cast<std::int64_t>(session->host->store().counts().keys));
}

void FlushAll(Arguments arguments, Session* session) {
  if (arguments.size() > 2 || (arguments.size() == 2 && !EqualsIgnoringCase(arguments[1], "SYNC") &&
                               !EqualsIgnoringCase(arguments[1], "ASYNC"))) {
    return session->reply->Error(kSyntaxError);
  }
  session->host->store().Clear();
  session->reply->Ok();
}

// --- Connection and server ---

void Ping(Arguments arguments, Session* session) {
  if (arguments.size() > 2) return ReplyWrongArity(arguments[0], session->reply);
  if (arguments.size() == 2) return session->reply->Bulk(arguments[1]);
  session->reply->Simple("PONG");
}

void Echo(Arguments arguments, Session* session) { session->reply->Bulk(arguments[1]); }

void Select(Arguments arguments, Session* session) {
  std::int64_t index = 0;
  if (!ParseNumber(arguments[1], &index)) return session->reply->Error(kNotAnInteger);
  if (index != 0) return session->reply->Error("ERR DB index is out of range");
  session->reply->Ok();
}

void Quit(Arguments /*arguments*/, Session* session) {
  session->reply->Ok();
  session->ends = true;
}

// HELLO [2]
void Hello(Arguments arguments, Session* session) {
  ReplyWriter* const reply = session->reply;
  if (arguments.size() > 1) {
    std::int64_t version = 0;
    if (!ParseNumber(arguments[1], &version)) {
      return reply->Error("ERR Protocol version is not an integer or out of range");
    }
    if (version != 2) return reply->Error("NOPROTO unsupported protocol version");
    if (arguments.size() > 2) {
      return reply->Error("ERR Syntax error in HELLO option '" + std::string(arguments[2]) + "'");
    }
  }
  reply->Array(14);
  reply->Bulk("server");
  reply->Bulk("weft");
  reply->Bulk("version");
  reply->Bulk("7.0.0");
  reply->Bulk("proto");
  reply->Integer(2);
  reply->Bulk("id");
  reply->Integer(static_cast<std::int64_t>(session->id));
  reply->Bulk("mode");
  reply->Bulk("standalone");
  reply->Bulk("role");
  reply->Bulk("master");
  reply->Bulk("modules");
  reply->Array(0);
}

// CONFIG GET pattern...: what benchmarks print.
void Config(Arguments arguments, Session* session) {
  if (!EqualsIgnoringCase(arguments[1], "GET")) return ReplyUnknownSubcommand("CONFIG", arguments[1], session->reply);
  if (arguments.size() < 3) return ReplyWrongArity("config|get", session->reply);
  struct Parameter {
    const char* name;
    const char* value;
  };
  static constexpr Parameter kParameters[] = {{"appendonly", "no"}, {"databases", "1"}, {"save", ""}};
  std::vector<const Parameter*> found;
  for (const Parameter& parameter : kParameters) {
    const bool wanted = std::any_of(arguments.begin() + 2, arguments.end(), [&](std::string_view pattern) {
      return ::fnmatch(std::string(pattern).c_str(), parameter.name, FNM_CASEFOLD) == 0;
    });
    if (wanted) found.push_back(&parameter);
  }
  session->reply->Array(found.size() * 2);
  for (const Parameter* parameter : found) {
    session->reply->Bulk(parameter->name);
    session->reply->Bulk(parameter->value);
  }
}

void Info(Arguments /*arguments*/, Session* session) {
  const Store::Counts counts = session->host->store().counts();
  std::string text = session->host->Info();
  text += "keyspace_hits:" + std::to_string(counts.hits) + "\r\n";
  text += "keyspace_misses:" + std::to_string(counts.misses) + "\r\n";
  text += "expired_keys:" + std::to_string(counts.expired) + "\r\n";
  text += "\r\n# Keyspace\r\n";
  if (counts.keys != 0) {
    text +=
        "db0:keys=" + std::to_string(counts.keys) + ",expires=" + std::to_string(counts.expiring) + ",avg_ttl=0\r\n";
  }
  session->reply->Bulk(text);
}

// SHUTDOWN [NOSAVE]: no answer, the connection ends.
void Shutdown(Arguments arguments, Session* session) {
  if (arguments.size() > 2 || (arguments.size() == 2 && !EqualsIgnoringCase(arguments[1], "NOSAVE"))) {
    return session->reply->Error(kSyntaxError);
  }
  session->ends = true;
  session->host->Shutdown();
}

void CommandCommand(Arguments arguments, Session* session);

// --- The table ---

// A name as a number, so that lookups compare numbers: its bytes, the first the highest. At most eight.
constexpr std::size_t kLongestName = 8;
constexpr std::uint64_t PackName(std::string_view name) {
  std::uint64_t packed = 0;
  for (const char c : name) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    packed = (packed << 8) | static_cast<unsigned char>(lower);
  }
  return packed;
}

struct Command {
  constexpr Command(std::string_view its_name, void (*its_run)(Arguments, Session*), int its_arity,
                    int its_first_key = 0, int its_last_key = 0, int its_key_step = 0)
      : packed_name(PackName(its_name)),
        run(its_run),
        name(its_name),
        arity(its_arity),
        first_key(its_first_key),
        last_key(its_last_key),
        key_step(its_key_step) {}

  bool Takes(std::size_t arguments) const {
    return arity >= 0 ? arguments == static_cast<std::size_t>(arity) : arguments >= static_cast<std::size_t>(-arity);
  }

  std::uint64_t packed_name;
  void (*run)(Arguments, Session*);
  std::string_view name;
  // With the name; negative: at least so many.
  int arity;
  // Where keys are, as COMMAND says it: -1 is the last argument.
  int first_key;
  int last_key;
  int key_step;
};

constexpr auto kCommands = [] {
  std::array commands = {
      Command("get", Get, 2, 1, 1, 1),
      Command("set", Set, -3, 1, 1, 1),
      Command("mget", MGet, -2, 1, -1, 1),
      Command("mset", MSet, -3, 1, -1, 2),
      Command("incr", Incr, 2, 1, 1, 1),
      Command("decr", Decr, 2, 1, 1, 1),
      Command("incrby", IncrBy, 3, 1, 1, 1),
      Command("decrby", DecrBy, 3, 1, 1, 1),
      Command("del", Del, -2, 1, -1, 1),
      Command("exists", Exists, -2, 1, -1, 1),
      Command("expire", Expire, -3, 1, 1, 1),
      Command("pexpire", PExpire, -3, 1, 1, 1),
      Command("ttl", Ttl, 2, 1, 1, 1),
      Command("pttl", PTtl, 2, 1, 1, 1),
      Command("dbsize", DbSize, 1),
      Command("flushall", FlushAll, -1),
      Command("flushdb", FlushAll, -1),
      Command("ping", Ping, -1),
      Command("echo", Echo, 2),
      Command("select", Select, 2),
      Command("quit", Quit, -1),
      Command("hello", Hello, -1),
      Command("info", Info, -1),
      Command("command", CommandCommand, -1),
      Command("config", Config, -2),
      Command("shutdown", Shutdown, -1),
  };
  std::sort(commands.begin(), commands.end(),
            [](const Command& a, const Command& b) { return a.packed_name < b.packed_name; });
  return commands;
}();

const Command* FindCommand(std::string_view name) {
  if (name.size() > kLongestName) return nullptr;
  const std::uint64_t packed = PackName(name);
  const auto* found = std::lower_bound(kCommands.begin(), kCommands.end(), packed,
                                       [](const Command& a, std::uint64_t b) { return a.packed_name < b; });
  // The size: a zero byte in front packs to nothing.
  const bool is_it = found != kCommands.end() && found->packed_name == packed && found->name.size() == name.size();
  return is_it ? found : nullptr;
}

// COMMAND [COUNT | DOCS ...]. There is no documentation: redis-cli then does without hints.
void CommandCommand(Arguments arguments, Session* session) {
  ReplyWriter* const reply = session->reply;
  if (arguments.size() > 1) {
    if (EqualsIgnoringCase(arguments[1], "DOCS")) return reply->Array(0);
    if (!EqualsIgnoringCase(arguments[1], "COUNT")) return ReplyUnknownSubcommand("COMMAND", arguments[1], reply);
    if (arguments.size() > 2) return ReplyWrongArity("command|count", reply);
    return reply->Integer(static_cast<std::int64_t>(kCommands.size()));
  }
  reply->Array(kCommands.size());
  for (const Command& command : kCommands) {
    reply->Array(6);
    reply->Bulk(command.name);
    reply->Integer(command.arity);
    reply->Array(0);  // flags
    reply->Integer(command.first_key);
    reply->Integer(command.last_key);
    reply->Integer(command.key_step);
  }
}

void ReplyUnknown(Arguments arguments, ReplyWriter* reply) {
  constexpr std::size_t kShown = 128;
  std::string text =
      "ERR unknown command '" + std::string(arguments[0].substr(0, kShown)) + "', with args beginning with: ";
  std::size_t shown = 0;
  for (std::size_t i = 1; i < arguments.size() && shown < kShown; ++i) {
    const std::string_view argument = arguments[i].substr(0, kShown - shown);
    text.append("'").append(argument).append("' ");
    shown += argument.size() + 3;
  }
  reply->Error(text);
}

}  // namespace

void ExecuteCommand(std::span<const std::string_view> arguments, Session* session) {
  const Command* const command = FindCommand(arguments[0]);
  // As in Redis: a web page can make its reader's browser send a POST whose body has commands. No client sends these.
  if (command == nullptr && (EqualsIgnoringCase(arguments[0], "POST") || EqualsIgnoringCase(arguments[0], "Host:"))) {
    session->ends = true;
    return;
  }
  if (command == nullptr) return ReplyUnknown(arguments, session->reply);
  if (!command->Takes(arguments.size())) return ReplyWrongArity(command->name, session->reply);
  command->run(arguments, session);
}

}  // namespace examples::resp
