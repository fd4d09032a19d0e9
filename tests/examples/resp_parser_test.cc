// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/resp_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace examples::resp {
namespace {

using namespace std::string_view_literals;

using Result = RespParser::Result;
using Request = std::vector<std::string>;

struct Parsed {
  std::vector<Request> requests;
  std::string error;     // "": none
  std::size_t left = 0;  // bytes of a request that is incomplete

  bool operator==(const Parsed&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Parsed& parsed) {
  for (const Request& request : parsed.requests) {
    out << "[";
    for (const std::string& argument : request) out << "'" << argument << "' ";
    out << "] ";
  }
  return out << "error '" << parsed.error << "', left " << parsed.left;
}

// Feeds `text` in pieces of the sizes that `next_size` returns. The bytes lie in a buffer of exactly their size, each
// time another one: AddressSanitizer finds a parser that reads behind it, or keeps an address.
template <class NextSize>
Parsed ParseInPieces(std::string_view text, const RespParser::Limits& limits, NextSize&& next_size) {
  RespParser parser(limits);
  Parsed parsed;
  std::string unread;
  while (!text.empty()) {
    const std::size_t size = std::min<std::size_t>(next_size(), text.size());
    unread.append(text.substr(0, size));
    text.remove_prefix(size);
    while (!unread.empty()) {
      const auto buffer = std::make_unique_for_overwrite<char[]>(unread.size());
      std::memcpy(buffer.get(), unread.data(), unread.size());
      const Result result = parser.Parse(buffer.get(), unread.size());
      if (result == Result::kError) {
        EXPECT_FALSE(parser.error().empty());
        parsed.error = parser.error();
        return parsed;
      }
      if (result == Result::kIncomplete) {
        EXPECT_GT(parser.missing(), std::size_t{0});
        break;
      }
      EXPECT_GT(parser.consumed(), std::size_t{0});
      EXPECT_LE(parser.consumed(), unread.size());
      Request& request = parsed.requests.emplace_back();
      for (const std::string_view argument : parser.arguments()) request.emplace_back(argument);
      unread.erase(0, parser.consumed());
    }
  }
  parsed.left = unread.size();
  return parsed;
}

Parsed ParseAtOnce(std::string_view text, const RespParser::Limits& limits = {}) {
  return ParseInPieces(text, limits, [&] { return text.size(); });
}

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

std::string Array(const Request& request) {
  std::string text = "*" + std::to_string(request.size()) + "\r\n";
  for (const std::string& argument : request) text += Bulk(argument);
  return text;
}

Parsed Requests(std::vector<Request> requests, std::size_t left = 0) { return {std::move(requests), "", left}; }

Parsed Failed(std::string error, std::vector<Request> requests = {}) {
  return {std::move(requests), "Protocol error: " + error, 0};
}

TEST(RespParser, FindsTheArgumentsOfAnArray) {
  EXPECT_EQ(ParseAtOnce("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"), Requests({{"GET", "k"}}));
  EXPECT_EQ(ParseAtOnce("*1\r\n$0\r\n\r\n"), Requests({{""}}));
  const std::string binary("a\r\n\0$*", 6);
  EXPECT_EQ(ParseAtOnce(Array({"SET", binary, ""})), Requests({{"SET", binary, ""}}));
}

TEST(RespParser, FindsAllRequestsOfAPipeline) {
  EXPECT_EQ(ParseAtOnce(Array({"SET", "a", "1"}) + "PING\r\n" + Array({"GET", "a"})),
            Requests({{"SET", "a", "1"}, {"PING"}, {"GET", "a"}}));
}

TEST(RespParser, ArgumentsPointIntoTheBuffer) {
  std::string text = Array({"GET", "key"});
  RespParser parser;
  ASSERT_EQ(parser.Parse(text.data(), text.size()), Result::kRequest);
  EXPECT_EQ(parser.arguments()[0].data(), text.data() + 8);
  EXPECT_EQ(parser.arguments()[1].data(), text.data() + 17);
  EXPECT_EQ(parser.consumed(), text.size());
}

TEST(RespParser, SaysHowManyBytesOfAnArgumentAreMissing) {
  std::string text = "*2\r\n$3\r\nGET\r\n$1000\r\nabc";
  RespParser parser;
  ASSERT_EQ(parser.Parse(text.data(), text.size()), Result::kIncomplete);
  EXPECT_EQ(parser.missing(), std::size_t{999});  // and the line's end
}

TEST(RespParser, AnEmptyArrayOrLineAsksNothing) {
  EXPECT_EQ(ParseAtOnce("*0\r\n*-1\r\n\r\n\n  \r\nPING\r\n"), Requests({{}, {}, {}, {}, {}, {"PING"}}));
}

TEST(RespParser, AnInlineRequestIsWords) {
  EXPECT_EQ(ParseAtOnce("SET  key\tvalue \r\n"), Requests({{"SET", "key", "value"}}));
  EXPECT_EQ(ParseAtOnce("GET key\n"), Requests({{"GET", "key"}}));
}

TEST(RespParser, QuotesOfAnInlineRequestAreThoseOfRedis) {
  EXPECT_EQ(ParseAtOnce(R"(SET "a b" 'c d')"
                        "\r\n"),
            Requests({{"SET", "a b", "c d"}}));
  EXPECT_EQ(ParseAtOnce(R"(ECHO "\x41\x4a\n\r\t\b\a\\\"\q\xzz" 'it\'s' "")"
                        "\r\n"),
            Requests({{"ECHO", "AJ\n\r\t\b\a\\\"qxzz", "it's", ""}}));
  EXPECT_EQ(ParseAtOnce("ECHO a\"b c\"\r\n"), Requests({{"ECHO", "ab c"}}));
  for (const char* bad :
       {"ECHO \"abc\r\n", "ECHO 'abc\r\n", "ECHO \"a\"b\r\n", "ECHO 'a'b\r\n", "ECHO \"\\\r\n", "'\n"}) {
    EXPECT_EQ(ParseAtOnce(bad), Failed("unbalanced quotes in request")) << bad;
  }
}

TEST(RespParser, RefusesInTheWordsOfRedis) {
  for (const char* bad :
       {"*x\r\n", "*\r\n", "*+1\r\n", "*01\r\n", "* 1\r\n", "*1048577\r\n", "*99999999999999999999\r\n"}) {
    EXPECT_EQ(ParseAtOnce(bad), Failed("invalid multibulk length")) << bad;
  }
  for (const char* bad : {"*1\r\n$x\r\n", "*1\r\n$-1\r\n", "*1\r\n$\r\n", "*1\r\n$536870913\r\n", "*1\r\n$00\r\n"}) {
    EXPECT_EQ(ParseAtOnce(bad), Failed("invalid bulk length")) << bad;
  }
  EXPECT_EQ(ParseAtOnce("*1\r\nPING\r\n"), Failed("expected '$', got 'P'"));
  EXPECT_EQ(ParseAtOnce("*2\r\n$3\r\nGET\r\n:1\r\n"), Failed("expected '$', got ':'"));
  EXPECT_EQ(ParseAtOnce(Array({"PING"}) + "*y\r\n"), Failed("invalid multibulk length", {{"PING"}}));
}

TEST(RespParser, RefusesLinesWithoutAnEnd) {
  const RespParser::Limits limits{.line_bytes = 64};
  EXPECT_EQ(ParseAtOnce(std::string(65, 'x'), limits), Failed("too big inline request"));
  EXPECT_EQ(ParseAtOnce(std::string(64, 'x'), limits), Requests({}, 64));
  EXPECT_EQ(ParseAtOnce(std::string(65, 'x') + "\n", limits), Failed("too big inline request"));  // Nor with one.
  EXPECT_EQ(ParseAtOnce("*" + std::string(64, '1'), limits), Failed("too big mbulk count string"));
  EXPECT_EQ(ParseAtOnce("*1\r\n$" + std::string(64, '1'), limits), Failed("too big bulk count string"));
}

TEST(RespParser, KeepsToItsLimits) {
  const RespParser::Limits limits{.arguments = 2, .bulk_bytes = 4};
  EXPECT_EQ(ParseAtOnce(Array({"ECHO", "abcd"}), limits), Requests({{"ECHO", "abcd"}}));
  EXPECT_EQ(ParseAtOnce(Array({"ECHO", "abcde"}), limits), Failed("invalid bulk length"));
  EXPECT_EQ(ParseAtOnce(Array({"a", "b", "c"}), limits), Failed("invalid multibulk length"));
}

TEST(RespParser, ALongRequestLeavesNothingBehind) {
  const Request many(100'000, "x");
  EXPECT_EQ(ParseAtOnce(Array(many) + Array({"PING"})), Requests({many, {"PING"}}));
}

// Valid requests of all kinds, one after the other.
std::string RandomStream(std::mt19937_64* random, std::vector<Request>* requests) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>((*random)() % n); };
  std::string text;
  const std::size_t count = 1 + below(8);
  for (std::size_t i = 0; i < count; ++i) {
    Request request(below(5));
    const bool is_inline = below(4) == 0;
    for (std::string& argument : request) {
      argument.resize(below(20) == 0 ? below(3000) : below(12));
      for (char& c : argument) c = static_cast<char>(is_inline ? 'a' + below(26) : below(256));
      if (is_inline && argument.empty()) argument = "w";
    }
    if (is_inline) {
      for (const std::string& argument : request) text += argument + " ";
      text += below(2) == 0 ? "\r\n" : "\n";
    } else {
      text += Array(request);
    }
    requests->push_back(std::move(request));
  }
  return text;
}

TEST(RespParser, HowTheBytesAreSplitMakesNoDifference) {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<Request> requests;
    const std::string text = RandomStream(&random, &requests);
    const Parsed expected = Requests(requests);
    ASSERT_EQ(ParseAtOnce(text), expected);
    ASSERT_EQ(ParseInPieces(text, {}, [] { return 1; }), expected);
    ASSERT_EQ(ParseInPieces(text, {}, [&] { return 1 + random() % 40; }), expected);
  }
}

// Streams that are nearly valid: they mean the same however they are split, and no byte outside of the buffer is read
// (AddressSanitizer).
TEST(RespParser, MalformedBytesMeanTheSameHoweverTheyAreSplit) {
  std::mt19937_64 random(20260102);
  constexpr std::string_view kInteresting = "*$\r\n\"'\\x0123456789-+ :\0\xff"sv;
  const RespParser::Limits limits{.line_bytes = 4096, .arguments = 50, .bulk_bytes = 5000};
  std::size_t refused = 0;
  std::size_t taken = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    std::vector<Request> requests;
    std::string text = RandomStream(&random, &requests);
    for (std::size_t n = 1 + random() % 4; n != 0; --n) {
      const std::size_t at = random() % text.size();
      const char c = kInteresting[random() % kInteresting.size()];
      switch (random() % 4) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.resize(at);
      }
      if (text.empty()) text = "x";
    }
    const Parsed whole = ParseAtOnce(text, limits);
    ASSERT_EQ(ParseInPieces(text, limits, [&] { return 1 + random() % 64; }), whole);
    ASSERT_EQ(ParseInPieces(text, limits, [] { return 1; }), whole);
    refused += whole.error.empty() ? 0 : 1;
    taken += whole.error.empty() ? 1 : 0;
  }
  EXPECT_GT(refused, std::size_t{300});  // The mutations are of both kinds.
  EXPECT_GT(taken, std::size_t{300});
}

}  // namespace
}  // namespace examples::resp
