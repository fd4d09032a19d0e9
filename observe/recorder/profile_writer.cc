// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/recorder/profile_writer.h"

#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace weft::observe {
namespace {

// A message of a protocol buffer.
class Message {
 public:
  void Number(unsigned field, std::uint64_t value) {
    Varint(field << 3);
    Varint(value);
  }
  void Bytes(unsigned field, std::string_view bytes) {
    constexpr unsigned kLengthDelimited = 2;
    Varint(field << 3 | kLengthDelimited);
    Varint(bytes.size());
    bytes_ += bytes;
  }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class PprofWriter {
 public:
  std::string Write(const ProfileTotals& totals, std::chrono::nanoseconds length) {
    static_cast<void>(StringAt(""));
    SampleType("events", "count");
    SampleType("time", "nanoseconds");
    for (const auto& [stack, total] : totals) {
      Message locations;
      for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) locations.Varint(LocationOf(*frame));
      Message values;
      values.Varint(static_cast<std::uint64_t>(total.count));
      values.Varint(static_cast<std::uint64_t>(total.ns));
      Message sample;
      sample.Bytes(1, locations.bytes());
      sample.Bytes(2, values.bytes());
      profile_.Bytes(2, sample.bytes());
    }
    for (const std::string& text : strings_) profile_.Bytes(6, text);
    profile_.Number(10, static_cast<std::uint64_t>(length.count()));
    return profile_.bytes();
  }

 private:
  std::uint64_t StringAt(const std::string& text) {
    const auto [found, is_new] = string_numbers_.try_emplace(text, strings_.size());
    if (is_new) strings_.push_back(text);
    return found->second;
  }

  void SampleType(const char* type, const char* unit) {
    Message message;
    message.Number(1, StringAt(type));
    message.Number(2, StringAt(unit));
    profile_.Bytes(1, message.bytes());
  }

  // Its function has the same number.
  std::uint64_t LocationOf(const std::string& frame) {
    const auto [found, is_new] = locations_.try_emplace(frame, locations_.size() + 1);
    if (is_new) {
      Message line;
      line.Number(1, found->second);
      Message location;
      location.Number(1, found->second);
      location.Bytes(4, line.bytes());
      profile_.Bytes(4, location.bytes());
      Message function;
      function.Number(1, found->second);
      function.Number(2, StringAt(frame));
      profile_.Bytes(5, function.bytes());
    }
    return found->second;
  }

  Message profile_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, std::uint64_t> string_numbers_;
  std::unordered_map<std::string, std::uint64_t> locations_;
};

}  // namespace

std::string WriteFolded(const std::vector<std::pair<ProfileStack, ProfileTotal>>& lines) {
  std::string text;
  for (const auto& [stack, total] : lines) {
    std::string_view between;
    for (const std::string& frame : stack) {
      text += between;
      for (const char c : frame) text += c == ';' || c == '\n' ? '_' : c;
      between = ";";
    }
    text += ' ';
    text += std::to_string(total.ns / 1000);
    text += '\n';
  }
  return text;
}

std::string WritePprof(const ProfileTotals& totals, std::chrono::nanoseconds length) {
  return PprofWriter().Write(totals, length);
}

}  // namespace weft::observe
