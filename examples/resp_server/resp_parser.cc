// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/resp_parser.h"

#include <cstring>

#include "resp_server/numbers.h"

namespace examples::resp {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char Unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// Words of an inline request. Each is unquoted in place; it never gets longer.
class WordReader {
 public:
  WordReader(char* begin, char* end) : at_(begin), end_(end) {}

  enum class Result { kWord, kEnd, kUnbalanced };
  Result Next(std::string_view* word) {
    while (at_ != end_ && IsSpace(*at_)) ++at_;
    if (at_ == end_) return Result::kEnd;
    char* const begin = at_;
    out_ = at_;
    while (at_ != end_ && !IsSpace(*at_)) {
      const char c = *at_++;
      if (c != '"' && c != '\'') {
        *out_++ = c;
        continue;
      }
      // A space or the end must follow a quoted part.
      if (!(c == '"' ? ReadDoubleQuoted() : ReadSingleQuoted()) || (at_ != end_ && !IsSpace(*at_))) {
        return Result::kUnbalanced;
      }
    }
    *word = {begin, static_cast<std::size_t>(out_ - begin)};
    return Result::kWord;
  }

 private:
  // From behind the opening quote to behind the closing one.
  bool ReadDoubleQuoted() {
    while (at_ != end_) {
      const char c = *at_++;
      if (c == '"') return true;
      if (c != '\\' || at_ == end_) {
        *out_++ = c;
      } else if (end_ - at_ >= 3 && *at_ == 'x' && HexDigit(at_[1]) >= 0 && HexDigit(at_[2]) >= 0) {
        *out_++ = static_cast<char>(HexDigit(at_[1]) * 16 + HexDigit(at_[2]));
        at_ += 3;
      } else {
        *out_++ = Unescaped(*at_++);
      }
    }
    return false;
  }
  bool ReadSingleQuoted() {
    while (at_ != end_) {
      const char c = *at_++;
      if (c == '\'') return true;
      if (c == '\\' && at_ != end_ && *at_ == '\'') {
        *out_++ = *at_++;
      } else {
        *out_++ = c;
      }
    }
    return false;
  }

  char* at_;
  char* const end_;
  char* out_ = nullptr;
};

}  // namespace

RespParser::Result RespParser::Parse(char* data, std::size_t size) {
  if (done_) {
    done_ = false;
    position_ = 0;
    arguments_left_ = -1;
    bulk_bytes_ = -1;
    slices_.clear();
    // One large request must not keep its memory for ever.
    if (slices_.capacity() > 1024) {
      std::vector<Slice>().swap(slices_);
      std::vector<std::string_view>().swap(arguments_);
    }
  }
  if (size == 0) return Incomplete(1);
  const Result result = data[0] == '*' ? ParseArray(data, size) : ParseInline(data, size);
  done_ = result == Result::kRequest;
  return result;
}

RespParser::Result RespParser::ParseArray(char* data, std::size_t size) {
  if (arguments_left_ < 0) {
    std::int64_t count = 0;
    switch (ParseCount(data, size, "too big mbulk count string", "invalid multibulk length",
                       std::numeric_limits<std::int64_t>::min(), limits_.arguments, &count)) {
      case Line::kNumber:
        break;
      case Line::kIncomplete:
        return Incomplete(1);
      case Line::kError:
        return Result::kError;
    }
    arguments_left_ = count > 0 ? count : 0;
  }
  while (arguments_left_ != 0) {
    if (bulk_bytes_ < 0) {
      if (position_ >= size) return Incomplete(1);
      if (data[position_] != '$') return Fail(std::string("expected '$', got '") + data[position_] + "'");
      switch (ParseCount(data, size, "too big bulk count string", "invalid bulk length", 0, limits_.bulk_bytes,
                         &bulk_bytes_)) {
        case Line::kNumber:
          break;
        case Line::kIncomplete:
          return Incomplete(1);
        case Line::kError:
          return Result::kError;
      }
    }
    const auto bytes = static_cast<std::size_t>(bulk_bytes_);
    const std::size_t end = position_ + bytes + 2;
    if (end > size) return Incomplete(end - size);
    slices_.push_back({position_, bytes});
    position_ = end;
    bulk_bytes_ = -1;
    --arguments_left_;
  }
  arguments_.clear();
  for (const Slice& slice : slices_) arguments_.emplace_back(data + slice.offset, slice.size);
  return Result::kRequest;
}

RespParser::Line RespParser::ParseCount(const char* data, std::size_t size, std::string_view too_long,
                                        std::string_view invalid, std::int64_t least, std::int64_t most,
                                        std::int64_t* count) {
  const char* const line = data + position_;
  const std::size_t there = size - position_;
  const auto* end = static_cast<const char*>(std::memchr(line, '\r', there));
  const std::size_t length = end != nullptr ? static_cast<std::size_t>(end - line) : there;
  if (length > limits_.line_bytes) {
    (void)Fail(too_long);
    return Line::kError;
  }
  if (end == nullptr || length + 1 == there) return Line::kIncomplete;  // Its "\n" is part of it.
  std::int64_t number = 0;
  if (!ParseNumber({line + 1, length - 1}, &number) || number < least || number > most) {
    (void)Fail(invalid);
    return Line::kError;
  }
  *count = number;
  position_ += length + 2;
  return Line::kNumber;
}

RespParser::Result RespParser::ParseInline(char* data, std::size_t size) {
  auto* newline = static_cast<char*>(std::memchr(data + position_, '\n', size - position_));
  const std::size_t length = newline != nullptr ? static_cast<std::size_t>(newline - data) : size;
  if (length > limits_.line_bytes) return Fail("too big inline request");
  if (newline == nullptr) {
    position_ = size;
    return Incomplete(1);
  }
  char* end = newline;
  if (end != data && end[-1] == '\r') --end;
  arguments_.clear();
  WordReader words(data, end);
  std::string_view word;
  for (;;) {
    switch (words.Next(&word)) {
      case WordReader::Result::kWord:
        arguments_.push_back(word);
        continue;
      case WordReader::Result::kUnbalanced:
        return Fail("unbalanced quotes in request");
      case WordReader::Result::kEnd:
        break;
    }
    break;
  }
  position_ = length + 1;
  return Result::kRequest;
}

RespParser::Result RespParser::Incomplete(std::size_t missing) {
  missing_ = missing;
  return Result::kIncomplete;
}

RespParser::Result RespParser::Fail(std::string_view what) {
  error_ = "Protocol error: ";
  error_ += what;
  return Result::kError;
}

}  // namespace examples::resp
