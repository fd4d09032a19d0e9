// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// CheckFlagFiles().  A flag file of gflags has comments (#), empty lines, flags (-name or --name, =value), and lines
// with patterns of program names: the lines that follow apply to these programs only.

#include <fnmatch.h>
#include <gflags/gflags.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/fiber/runtime/runtime_flags.h"

namespace weft::fiber {

namespace {

// Stops files that include each other.
constexpr int kDeepest = 16;

using Refusal = std::optional<std::string>;

bool IsFlag(const std::string& name, gflags::CommandLineFlagInfo* info) {
  return gflags::GetCommandLineFlagInfo(name.c_str(), info);
}

std::vector<std::string> Split(std::string_view list, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(list)};
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

bool IsThisProgram(const std::string& pattern) {
  return fnmatch(pattern.c_str(), gflags::ProgramInvocationName(), FNM_PATHNAME) == 0 ||
         fnmatch(pattern.c_str(), gflags::ProgramInvocationShortName(), FNM_PATHNAME) == 0;
}

class Reader {
 public:
  Refusal Check(const std::string& path, int depth) {
    if (depth > kDeepest) return base::StrCat(path, ": flag files name each other more than ", kDeepest, " deep");
    std::ifstream file(path);
    if (!file) return base::StrCat(path, ": the flag file cannot be read");
    bool counts = true;  // for this program
    bool in_names = false;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const std::size_t begin = line.find_first_not_of(" \t\r");
      if (begin == std::string::npos || line[begin] == '#') continue;
      line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
      Refusal what;
      if (line[0] == '-') {
        in_names = false;
        if (counts) what = CheckFlag(line, depth);
      } else {
        if (!in_names) counts = false;
        in_names = true;
        what = CheckNames(line, &counts);
      }
      if (!what.has_value()) continue;
      return what->starts_with('\0') ? what->substr(1) : base::StrCat(path, ":", number, ": ", *what);
    }
    return std::nullopt;
  }

 private:
  Refusal CheckFlag(const std::string& line, int depth) {
    const std::size_t dashes = line.starts_with("--") ? 2 : 1;
    const std::size_t equals = line.find('=');
    const bool has_value = equals != std::string::npos;
    const std::string name = line.substr(dashes, has_value ? equals - dashes : std::string::npos);
    const std::string value = has_value ? line.substr(equals + 1) : "";
    if (name == "undefok") {
      for (const std::string& part : Split(value, ',')) may_be_unknown_.insert(part);
    }
    if (name == "flagfile") {
      for (const std::string& path : Split(value, ',')) {
        // It says where by itself.
        if (Refusal what = Check(path, depth + 1)) return std::string(1, '\0') + *what;
      }
    }
    gflags::CommandLineFlagInfo info;
    if (name.starts_with("no") && IsFlag(name.substr(2), &info) && info.type == "bool" && !has_value) {
      return std::nullopt;
    }
    if (!IsFlag(name, &info)) {
      if (may_be_unknown_.contains(name)) return std::nullopt;
      return base::StrCat("unknown flag --", name);
    }
    if (!has_value && info.type != "bool") return base::StrCat("--", name, " has no value: --", name, "=<value>");
    return std::nullopt;
  }

  // gflags would take a flag without dashes for a program, and apply all that follows to that one.
  static Refusal CheckNames(const std::string& line, bool* counts) {
    std::istringstream stream(line);
    for (std::string name; stream >> name;) {
      gflags::CommandLineFlagInfo info;
      if (name.find('=') != std::string::npos || IsFlag(name, &info)) {
        return base::StrCat("\"", line, "\" is no flag: a flag begins with --");
      }
      if (IsThisProgram(name)) *counts = true;
    }
    return std::nullopt;
  }

  std::set<std::string> may_be_unknown_;
};

}  // namespace

std::optional<std::string> CheckFlagFile(const std::string& path) { return Reader().Check(path, 0); }

std::optional<std::string> CheckFlagFiles() {
  std::set<std::string> paths;
  const std::vector<std::string>& arguments = gflags::GetArgvs();
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string_view argument = arguments[i];
    if (!argument.starts_with('-')) continue;
    argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
    std::string_view list;
    if (argument.starts_with("flagfile=")) list = argument.substr(9);
    if (argument == "flagfile" && i + 1 < arguments.size()) list = arguments[i + 1];
    for (std::string& path : Split(list, ',')) paths.insert(std::move(path));
  }
  for (const std::string& path : paths) {
    if (Refusal what = CheckFlagFile(path)) return what;
  }
  return std::nullopt;
}

}  // namespace weft::fiber
