// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "weft/base/report/str_cat.h"
#include "weft/http/admin/json_writer.h"
#include "weft/http/admin/views.h"

namespace weft::http {

std::string FlagsJson(bool may_change) {
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  JsonWriter json;
  json.Open('{').Field("may_change", may_change).Key("flags").Open('[');
  for (const gflags::CommandLineFlagInfo& flag : flags) {
    json.Open('{').Field("name", flag.name).Field("type", flag.type).Field("value", flag.current_value);
    json.Field("default", flag.default_value).Field("is_default", flag.current_value == flag.default_value);
    json.Field("description", flag.description).Field("file", flag.filename).Close('}');
  }
  json.Close(']').Close('}');
  return json.Take();
}

bool SetFlag(std::string_view assignment, std::string* why) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    *why = "expected name=value";
    return false;
  }
  const std::string name(assignment.substr(0, equals));
  const std::string value(assignment.substr(equals + 1));
  gflags::CommandLineFlagInfo flag;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &flag)) {
    *why = base::StrCat("there is no flag --", name);
    return false;
  }
  // The program reads a flag without a lock: of a string it may see a half. And no file is read that a flag names.
  if (flag.type == "string") {
    *why = base::StrCat("--", name, " is a string, which cannot change while the program runs");
    return false;
  }
  if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    *why = base::StrCat("--", name, "=", value, ": this is no valid ", flag.type, " for it");
    return false;
  }
  return true;
}

}  // namespace weft::http
