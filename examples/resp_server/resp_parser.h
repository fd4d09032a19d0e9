// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RespParser: requests of the Redis protocol (RESP2), as they come off the wire.
//
//     *2\r\n$3\r\nGET\r\n$1\r\nk\r\n      an array of bulk strings: what clients send
//     GET k\r\n                           the inline form: what people type; quotes as in a shell
//
//     RespParser parser;
//     for each read:  while (parser.Parse(data, size) == RespParser::Result::kRequest) {
//                       ... parser.arguments() ...
//                       data += parser.consumed(), size -= parser.consumed();
//                     }
//
// `data` is received and not yet consumed. The arguments point into it: nothing is copied. The parser remembers
// how far it came in an incomplete request, so it looks at each byte once, however they are split. It keeps offsets
// only, so the buffer may be moved meanwhile.
//
// Refusals and their texts are Redis 7.0's, except that the number of arguments has a limit. After an error the stream
// is meaningless and must be closed. As in Redis, the two bytes that end a bulk string are not checked.
// One user at a time.
#ifndef WEFT_EXAMPLES_RESP_SERVER_RESP_PARSER_H_
#define WEFT_EXAMPLES_RESP_SERVER_RESP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace examples::resp {

class RespParser {
 public:
  struct Limits {
    std::size_t line_bytes = std::size_t{64} << 10;     // an inline request, or the line with a length
    std::int64_t arguments = std::int64_t{1} << 20;     // of one request
    std::int64_t bulk_bytes = std::int64_t{512} << 20;  // of one argument
  };

  enum class Result {
    kRequest,     // arguments() and consumed(); no arguments: nothing was asked, nothing is to be answered
    kIncomplete,  // missing(); to be called again with the same bytes and more
    kError,       // error()
  };

  RespParser() = default;
  explicit RespParser(const Limits& limits) : limits_(limits) {}

  // May write to `data`: quoted parts of an inline request are unquoted in place.
  [[nodiscard]] Result Parse(char* data, std::size_t size);

  // Of the last request, until the next Parse() or a move of the bytes.
  std::span<const std::string_view> arguments() const { return arguments_; }
  std::size_t consumed() const { return position_; }
  // At least so many bytes more are needed.
  std::size_t missing() const { return missing_; }
  // Memory that it has taken.
  std::size_t bytes() const {
    return slices_.capacity() * sizeof(Slice) + arguments_.capacity() * sizeof(std::string_view);
  }
  // "Protocol error: ..."
  const std::string& error() const { return error_; }

 private:
  struct Slice {
    std::size_t offset;
    std::size_t size;
  };
  enum class Line { kNumber, kIncomplete, kError };

  Result ParseArray(char* data, std::size_t size);
  Result ParseInline(char* data, std::size_t size);
  // A marker and a number, from position_ on.
  Line ParseCount(const char* data, std::size_t size, std::string_view too_long, std::string_view invalid,
                  std::int64_t least, std::int64_t most, std::int64_t* count);
  Result Incomplete(std::size_t missing);
  Result Fail(std::string_view what);

  Limits limits_;
  std::size_t position_ = 0;          // in the request: what has been looked at
  std::int64_t arguments_left_ = -1;  // of the array; -1: its head has not come
  std::int64_t bulk_bytes_ = -1;      // of the argument whose head has come; -1: none
  bool done_ = false;                 // the last call ended a request
  std::size_t missing_ = 1;
  std::vector<Slice> slices_;
  std::vector<std::string_view> arguments_;
  std::string error_;
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_RESP_PARSER_H_
