// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "weft/http/admin/json_writer.h"
#include "weft/http/admin/views.h"

namespace weft::http {
namespace {

namespace fs = std::filesystem;

// "" if there is no such file: a thread has ended, or the system does not say it.
std::string FirstLine(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// Of the entries "cpu12" or "4711" of a folder, in order.
std::vector<int> Numbers(const fs::path& folder, std::string_view prefix) {
  std::vector<int> numbers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(prefix)) continue;
    if (const auto [at, bad] = std::from_chars(name.data() + prefix.size(), end, number);
        at == end && bad == std::errc()) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

int NumberOr(const std::string& text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

int NodeOf(const fs::path& cpu) {
  const std::vector<int> nodes = Numbers(cpu, "node");
  return nodes.empty() ? 0 : nodes.front();
}

void PutCpus(JsonWriter& json) {
  const fs::path all = "/sys/devices/system/cpu";
  json.Key("cpus").Open('[');
  for (const int number : Numbers(all, "cpu")) {
    const fs::path cpu = all / ("cpu" + std::to_string(number));
    if (FirstLine(cpu / "online") == "0") continue;  // CPU 0 has no such file.
    json.Open('{').Field("cpu", number).Field("node", NodeOf(cpu));
    json.Field("package", NumberOr(FirstLine(cpu / "topology/physical_package_id"), 0));
    json.Field("core", FirstLine(cpu / "topology/thread_siblings_list"));
    json.Field("l3", FirstLine(cpu / "cache/index3/shared_cpu_list")).Close('}');
  }
  json.Close(']');
}

// The line "Cpus_allowed_list:\t0-3" of a thread's status.
std::string AllowedCpus(const fs::path& thread) {
  constexpr std::string_view kName = "Cpus_allowed_list:\t";
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kName)) return line.substr(kName.size());
  }
  return {};
}

// The 39th field of stat; the second is the name in brackets, which may have blanks in it.
int LastCpu(const fs::path& thread) {
  const std::string stat = FirstLine(thread / "stat");
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return -1;
  std::istringstream fields(stat.substr(end + 1));
  std::string field;
  for (int i = 3; i <= 39; ++i) fields >> field;
  return fields ? NumberOr(field, -1) : -1;
}

void PutThreads(JsonWriter& json) {
  const fs::path all = "/proc/self/task";
  json.Key("threads").Open('[');
  for (const int id : Numbers(all, "")) {
    const fs::path thread = all / std::to_string(id);
    std::uint64_t cpu_ns = 0;
    if (!(std::ifstream(thread / "schedstat") >> cpu_ns)) continue;
    json.Open('{').Field("id", id).Field("name", FirstLine(thread / "comm")).Field("cpu", LastCpu(thread));
    json.Field("allowed", AllowedCpus(thread)).Field("cpu_ns", cpu_ns).Close('}');
  }
  json.Close(']');
}

}  // namespace

std::string MachineJson() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  JsonWriter json;
  json.Open('{').Field("now_ns", std::chrono::nanoseconds(now).count());
  PutCpus(json);
  PutThreads(json);
  json.Close('}');
  return json.Take();
}

}  // namespace weft::http
