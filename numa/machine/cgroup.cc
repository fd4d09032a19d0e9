// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace weft::numa {

namespace {

enum class Version { kV1, kV2 };

// Our group in one hierarchy, and where the hierarchy is mounted.
struct Hierarchy {
  Version version = Version::kV2;
  std::string group;        // Path of our group in the hierarchy: "/a/b".
  std::string mount_point;  // "/sys/fs/cgroup"
  std::string mount_root;   // Which group is visible at the mount point: "/".
};

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

bool Contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// mountinfo writes space, tab, newline and backslash as three octal digits.
std::string Unescape(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3])) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Our groups, without mounts. A line of /proc/self/cgroup is "4:cpu,cpuacct:/a/b", or in version 2 "0::/a/b".
std::vector<Hierarchy> ReadGroups(const std::string& root, std::string_view controller) {
  std::vector<Hierarchy> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    Hierarchy hierarchy;
    hierarchy.group = line.substr(second + 1);
    if (controllers.empty()) {
      hierarchy.version = Version::kV2;
    } else if (Contains(Split(controllers, ','), controller)) {
      hierarchy.version = Version::kV1;
    } else {
      continue;
    }
    groups.push_back(std::move(hierarchy));
  }
  return groups;
}

// A line of mountinfo: "36 35 0:30 <root> <mount point> <options> [<tag>...] - <type> <source> <super options>".
void FillInMount(const std::string& line, std::string_view controller, std::vector<Hierarchy>* hierarchies) {
  std::istringstream stream(line);
  std::string id, parent, device, mount_root, mount_point, word, type, source, options;
  stream >> id >> parent >> device >> mount_root >> mount_point;
  while (stream >> word && word != "-") continue;
  stream >> type >> source >> options;
  for (Hierarchy& hierarchy : *hierarchies) {
    const bool matches = hierarchy.version == Version::kV2
                             ? type == "cgroup2"
                             : type == "cgroup" && Contains(Split(options, ','), controller);
    if (!matches || !hierarchy.mount_point.empty()) continue;
    hierarchy.mount_root = Unescape(mount_root);
    hierarchy.mount_point = Unescape(mount_point);
  }
}

// The path of our group below the mount point: "" is the mount point itself.
std::string PathBelowMount(const Hierarchy& hierarchy) {
  std::string group = hierarchy.group == "/" ? "" : hierarchy.group;
  const std::string mount_root = hierarchy.mount_root == "/" ? "" : hierarchy.mount_root;
  if (!mount_root.empty() && group.starts_with(mount_root) &&
      (group.size() == mount_root.size() || group[mount_root.size()] == '/')) {
    group.erase(0, mount_root.size());
  }
  // "/../x": a group outside of our cgroup namespace; we can see only what is mounted here.
  if (group.starts_with("/..")) group.clear();
  return group;
}

std::optional<double> ReadCpuV2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota_text;
  double period = 0;
  if (!(file >> quota_text >> period) || quota_text == "max" || period <= 0) return std::nullopt;
  std::istringstream stream(quota_text);
  double quota = 0;
  if (!(stream >> quota) || quota <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> ReadCpuV1(const std::string& directory) {
  std::ifstream quota_file(directory + "/cpu.cfs_quota_us");
  std::ifstream period_file(directory + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// "max" is no limit.
std::optional<double> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<double> ReadMemoryV2(const std::string& directory) { return ReadNumber(directory + "/memory.max"); }
std::optional<double> ReadMemoryV1(const std::string& directory) {
  return ReadNumber(directory + "/memory.limit_in_bytes");
}

// In a group's directory.
using Reader = std::optional<double> (*)(const std::string& directory);

// The smallest limit from our group up to the mount point.
std::optional<double> ReadHierarchy(const std::string& root, const Hierarchy& hierarchy, Reader read) {
  std::optional<double> smallest;
  std::string path = PathBelowMount(hierarchy);
  for (;;) {
    const std::string directory = root + hierarchy.mount_point + path;
    const auto limit = read(directory);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
    if (path.empty()) return smallest;
    const std::size_t slash = path.rfind('/');
    path.erase(slash == std::string::npos ? 0 : slash);
  }
}

std::optional<double> ReadSmallest(const std::string& root, std::string_view controller, Reader v2, Reader v1) {
  std::vector<Hierarchy> hierarchies = ReadGroups(root, controller);
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) FillInMount(line, controller, &hierarchies);
  std::optional<double> smallest;
  for (const Hierarchy& hierarchy : hierarchies) {
    if (hierarchy.mount_point.empty()) continue;
    const auto limit = ReadHierarchy(root, hierarchy, hierarchy.version == Version::kV2 ? v2 : v1);
    if (limit && (!smallest || *limit < *smallest)) smallest = limit;
  }
  return smallest;
}

}  // namespace

std::optional<double> ReadCpuQuota(const std::string& root) {
  return ReadSmallest(root, "cpu", &ReadCpuV2, &ReadCpuV1);
}

std::optional<double> ReadMemoryLimit(const std::string& root) {
  return ReadSmallest(root, "memory", &ReadMemoryV2, &ReadMemoryV1);
}

}  // namespace weft::numa
