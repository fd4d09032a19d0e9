// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "topology_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "weft/base/report/log.h"

namespace weft::tools {
namespace {

using numa::Topology;
using scheduling_group::PlannedGroup;

// Sizes in user units; a CPU's number of four digits fits its cell.
constexpr double kCellWidth = 27;
constexpr double kCellHeight = 24;
constexpr double kBandHeight = 15;      // the name of a group above its cells
constexpr double kBandLetterWidth = 6;  // about
constexpr double kPad = 11;
constexpr double kRowGap = 13;  // below a row of cores: arrows run there
constexpr double kHeader = 22;  // the name of a box
constexpr double kGap = 10;
constexpr double kMargin = 18;
constexpr double kMemoryHeight = 20;    // a node that has memory only
constexpr double kMostBend = 12;        // An arc of half that height passes below the name of the box it is in.
constexpr double kNodeBend = 6;         // Between the upper edges of nodes, below the names of packages.
constexpr std::size_t kFewGroups = 12;  // So many may have more than one arrow each.

constexpr char kInk[] = "#1f2733";
constexpr char kFaint[] = "#8b94a3";

struct Point {
  double x = 0;
  double y = 0;
};

// A box with boxes in it, or (an L3 domain) with cores; nodes with memory only are at its foot.
struct Box {
  std::string name;
  std::vector<Box> inside{};
  std::vector<int> memory_nodes{};
  std::vector<std::vector<const Topology::Cpu*>> cores{};
  std::size_t columns = 1;  // of what is inside
  double width = 0;
  double height = 0;
  double row_height = 0;  // of cores
  int node = -1;          // if it is one
  int depth = 0;
};

// Where arrows begin and end: the name of a group (or of a node), and the box that it is in (or is).
struct Anchor {
  double left = 0;
  double right = 0;
  double top = 0;
  double bottom = 0;
  const Box* box = nullptr;
  Point box_at{};
  double most_bend = kMostBend;
  Point above() const { return {(left + right) / 2, top}; }
};

struct Seat {
  int group = -1;
  std::vector<std::size_t> workers{};
};

std::string Number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string result = text.data();
  if (result.ends_with(".0")) result.resize(result.size() - 2);
  return result;
}

std::string Escape(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// Neighbours in number are far apart on the colour wheel.
std::string Colour(int group, double lightness) {
  const double hue = std::fmod(205.0 + 137.508 * group, 360.0);
  const double saturation = group % 2 == 0 ? 0.62 : 0.50;
  const double chroma = (1 - std::abs(2 * lightness - 1)) * saturation;
  const double second = chroma * (1 - std::abs(std::fmod(hue / 60, 2) - 1));
  const double base = lightness - chroma / 2;
  const int sector = static_cast<int>(hue / 60);
  const std::array<std::array<double, 3>, 6> sectors{{{chroma, second, 0},
                                                      {second, chroma, 0},
                                                      {0, chroma, second},
                                                      {0, second, chroma},
                                                      {second, 0, chroma},
                                                      {chroma, 0, second}}};
  std::array<char, 8> text{};
  std::array<unsigned, 3> parts{};
  for (std::size_t i = 0; i < 3; ++i) {
    parts[i] = static_cast<unsigned>(std::lround((sectors[static_cast<std::size_t>(sector)][i] + base) * 255)) & 0xff;
  }
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", parts[0], parts[1], parts[2]);
  return text.data();
}

class Drawing {
 public:
  explicit Drawing(const Picture& picture) : picture_(picture) {
    for (std::size_t g = 0; g < picture.plan.groups.size(); ++g) {
      const PlannedGroup& group = picture.plan.groups[g];
      for (std::size_t w = 0; w < group.worker_cpus.size(); ++w) {
        Seat& seat = seats_[group.worker_cpus[w]];
        if (seat.group < 0) seat.group = static_cast<int>(g);
        seat.workers.push_back(w);
      }
    }
  }

  std::string Draw();

 private:
  Box MakeTree() const;
  void Measure(Box* box) const;
  void ArrangeCores(Box* box) const;
  void DrawBox(const Box& box, Point at);
  void DrawCores(const Box& box, Point at);
  void DrawCell(const Topology::Cpu& cpu, Point at);
  void DrawMemoryNodes(const Box& box, Point at);
  void DrawArrows();
  void DrawArrow(const Anchor& from, const Anchor& to, bool both_ways, const char* kind);
  std::string Around(const Anchor& from, const Anchor& to) const;
  double DrawLegend(Point at);
  void Text(Point at, const std::string& text, const std::string& attributes);
  void Label(Point at, const std::string& text, const std::string& attributes);
  int GroupOfCore(const std::vector<const Topology::Cpu*>& core) const;
  std::string Summary() const;

  const Picture& picture_;
  std::map<int, Seat> seats_;  // by CPU
  std::ostringstream out_;
  std::ostringstream labels_;            // They are above all else.
  std::map<int, Anchor> band_of_group_;  // its first one
  std::map<int, Anchor> header_of_node_;
};

int Drawing::GroupOfCore(const std::vector<const Topology::Cpu*>& core) const {
  for (const Topology::Cpu* cpu : core) {
    if (const auto seat = seats_.find(cpu->os_id); seat != seats_.end()) return seat->second.group;
  }
  return -1;
}

// The nodes with memory only that are beside CPUs of all these packages and of no other.
std::vector<int> MemoryNodesBeside(const Topology& machine, const std::set<int>& packages) {
  std::vector<int> nodes;
  for (const Topology::MemoryNode& memory : machine.memory_nodes) {
    std::set<int> beside;
    for (int cpu : memory.cpus) beside.insert(machine.FindCpu(cpu)->package);
    if (beside == packages) nodes.push_back(memory.os_id);
  }
  return nodes;
}

Box Drawing::MakeTree() const {
  std::map<int, std::map<int, std::map<int, std::map<int, std::vector<const Topology::Cpu*>>>>> tree;
  for (const Topology::Cpu& cpu : picture_.machine.cpus) tree[cpu.package][cpu.node][cpu.l3][cpu.core].push_back(&cpu);
  Box machine{.name = "", .depth = 0};
  for (const Topology::MemoryNode& memory : picture_.machine.memory_nodes) {
    machine.memory_nodes.push_back(memory.os_id);
  }
  for (auto& [package, nodes] : tree) {
    Box package_box{.name = "package " + std::to_string(package), .depth = 1};
    package_box.memory_nodes = MemoryNodesBeside(picture_.machine, {package});
    // Memory beside CPUs of several packages stays with the machine.
    for (int node : package_box.memory_nodes) std::erase(machine.memory_nodes, node);
    for (auto& [node, l3s] : nodes) {
      Box node_box{.name = "node " + std::to_string(node), .node = node, .depth = 2};
      for (auto& [l3, cores] : l3s) {
        Box l3_box{.name = "L3 domain " + std::to_string(l3), .depth = 3};
        for (auto& [core, cpus] : cores) {
          std::sort(cpus.begin(), cpus.end(), [](const auto* a, const auto* b) { return a->smt < b->smt; });
          l3_box.cores.push_back(std::move(cpus));
        }
        node_box.inside.push_back(std::move(l3_box));
      }
      package_box.inside.push_back(std::move(node_box));
    }
    machine.inside.push_back(std::move(package_box));
  }
  return machine;
}

// Up to 8 cores in one row; more in rows of 8 to 16 that split as few groups as possible.
void Drawing::ArrangeCores(Box* box) const {
  const std::size_t count = box->cores.size();
  std::size_t threads = 1;
  for (const auto& core : box->cores) threads = std::max(threads, core.size());
  box->columns = count;
  if (count > 8) {
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    for (std::size_t columns = 8; columns <= std::min<std::size_t>(16, count); ++columns) {
      std::size_t bands = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (i % columns == 0 || GroupOfCore(box->cores[i]) != GroupOfCore(box->cores[i - 1])) ++bands;
      }
      bands = bands * 4 + (count + columns - 1) / columns * columns - count;  // And few places left empty.
      if (bands > fewest) continue;
      fewest = bands;
      box->columns = columns;
    }
  }
  const std::size_t rows = (count + box->columns - 1) / box->columns;
  box->row_height = kBandHeight + static_cast<double>(threads) * kCellHeight;
  box->width = 2 * kPad + std::max(3.0, static_cast<double>(box->columns)) * kCellWidth;
  box->height = kHeader + static_cast<double>(rows) * (box->row_height + kRowGap);
}

void Drawing::Measure(Box* box) const {
  if (!box->cores.empty()) return ArrangeCores(box);
  double width = 0;
  double height = 0;
  for (Box& inner : box->inside) {
    Measure(&inner);
    width = std::max(width, inner.width);
    height = std::max(height, inner.height);
  }
  // The columns that make it about as wide as a page, with few places left empty.
  const std::size_t count = box->inside.size();
  const double wanted = box->depth == 0 ? 2.4 : 1.5;
  double best = std::numeric_limits<double>::max();
  for (std::size_t columns = 1; columns <= count; ++columns) {
    const std::size_t rows = (count + columns - 1) / columns;
    const double shape = static_cast<double>(columns) * width / (static_cast<double>(rows) * height);
    const double empty = static_cast<double>(rows * columns - count) / static_cast<double>(count);
    const double badness = std::abs(std::log(shape / wanted)) + 2 * empty;
    if (badness >= best) continue;
    best = badness;
    box->columns = columns;
  }
  for (Box& inner : box->inside) {
    inner.width = width;
    inner.height = height;
  }
  const auto columns = static_cast<double>(box->columns);
  const double rows = std::ceil(static_cast<double>(count) / columns);
  const double pad = box->depth == 0 ? 0 : kPad;
  const double header = box->depth == 0 ? 0 : kHeader;
  box->width = 2 * pad + columns * width + (columns - 1) * kGap;
  box->height = header + pad + rows * height + (rows - 1) * kGap;
  box->height += static_cast<double>(box->memory_nodes.size()) * (kMemoryHeight + kGap);
}

void Drawing::Text(Point at, const std::string& text, const std::string& attributes) {
  out_ << "<text x=\"" << Number(at.x) << "\" y=\"" << Number(at.y) << "\" " << attributes << '>' << Escape(text)
       << "</text>\n";
}

void Drawing::Label(Point at, const std::string& text, const std::string& attributes) {
  std::swap(out_, labels_);
  Text(at, text, attributes);
  std::swap(out_, labels_);
}

void Drawing::DrawMemoryNodes(const Box& box, Point at) {
  const double pad = box.depth == 0 ? 0 : kPad;
  double y = at.y + box.height - pad - static_cast<double>(box.memory_nodes.size()) * (kMemoryHeight + kGap) + kGap;
  for (int node : box.memory_nodes) {
    out_ << "<rect class=\"memory\" data-node=\"" << node << "\" x=\"" << Number(at.x + pad) << "\" y=\"" << Number(y)
         << "\" width=\"" << Number(box.width - 2 * pad) << "\" height=\"" << Number(kMemoryHeight)
         << "\" rx=\"6\" fill=\"#f5f7fa\" stroke=\"#bcc5d1\" stroke-dasharray=\"4 2\"/>\n";
    Label({at.x + pad + kPad, y + 13}, "node " + std::to_string(node) + ": memory only", "class=\"box strong\"");
    y += kMemoryHeight + kGap;
  }
}

void Drawing::DrawBox(const Box& box, Point at) {
  static constexpr const char* kFill[] = {"", "#e9edf3", "#f5f7fa", "#ffffff"};
  static constexpr const char* kEdge[] = {"", "#aeb7c4", "#bcc5d1", "#cfd6df"};
  if (box.depth > 0) {
    out_ << "<rect x=\"" << Number(at.x) << "\" y=\"" << Number(at.y) << "\" width=\"" << Number(box.width)
         << "\" height=\"" << Number(box.height) << "\" rx=\"6\" fill=\"" << kFill[box.depth] << "\" stroke=\""
         << kEdge[box.depth] << "\"/>\n";
    const double baseline = at.y + (box.depth == 1 ? 11 : 13);  // Below names of packages run arrows between nodes.
    Label({at.x + kPad, baseline}, box.name, box.depth == 3 ? "class=\"box\"" : "class=\"box strong\"");
    if (box.node >= 0) {
      const double middle = at.x + box.width / 2;
      header_of_node_.try_emplace(box.node, Anchor{middle, middle, at.y - 3, at.y - 3, &box, at, kNodeBend});
    }
  }
  DrawMemoryNodes(box, at);
  if (!box.cores.empty()) return DrawCores(box, at);
  const double pad = box.depth == 0 ? 0 : kPad;
  const double header = box.depth == 0 ? 0 : kHeader;
  for (std::size_t i = 0; i < box.inside.size(); ++i) {
    const Box& inner = box.inside[i];
    const auto column = static_cast<double>(i % box.columns);
    const auto row = static_cast<double>(i / box.columns);
    DrawBox(inner, {at.x + pad + column * (inner.width + kGap), at.y + header + row * (inner.height + kGap)});
  }
}

void Drawing::DrawCores(const Box& box, Point at) {
  for (std::size_t i = 0; i < box.cores.size();) {
    // A band: cores of one group side by side.
    const int group = GroupOfCore(box.cores[i]);
    const double y = at.y + kHeader + static_cast<double>(i / box.columns) * (box.row_height + kRowGap);
    const double x = at.x + kPad + static_cast<double>(i % box.columns) * kCellWidth;
    std::size_t end = i;
    do {
      const double left = x + static_cast<double>(end - i) * kCellWidth;
      for (std::size_t t = 0; t < box.cores[end].size(); ++t) {
        DrawCell(*box.cores[end][t], {left, y + kBandHeight + static_cast<double>(t) * kCellHeight});
      }
      ++end;
    } while (end < box.cores.size() && end % box.columns != 0 && GroupOfCore(box.cores[end]) == group);
    const double width = static_cast<double>(end - i) * kCellWidth;
    if (group >= 0) {
      const bool first = !band_of_group_.contains(group);
      out_ << "<rect x=\"" << Number(x + 0.8) << "\" y=\"" << Number(y) << "\" width=\"" << Number(width - 1.6)
           << "\" height=\"" << Number(kBandHeight - 2) << "\" rx=\"3\" fill=\"" << Colour(group, 0.42) << "\"/>\n";
      const std::string& name = picture_.plan.groups[static_cast<std::size_t>(group)].name;
      const std::string label = base::StrCat(name.empty() ? "group" : name, " ", group);
      const bool wide = width > 2.5 * kCellWidth && static_cast<double>(label.size()) * kBandLetterWidth < width;
      Label({x + width / 2, y + 9.8}, wide ? label : std::to_string(group), "class=\"band\"");
      if (first) band_of_group_[group] = {x, x + width, y, y + kBandHeight - 2, &box, at};
    }
    i = end;
  }
}

void Drawing::DrawCell(const Topology::Cpu& cpu, Point at) {
  const auto seat = seats_.find(cpu.os_id);
  int group = -1;
  std::string fill = "#ffffff";
  std::string tooltip = "CPU " + std::to_string(cpu.os_id) + ": ";
  if (seat != seats_.end()) {
    group = seat->second.group;
    fill = Colour(group, 0.80);
    const std::string& name = picture_.plan.groups[static_cast<std::size_t>(group)].name;
    tooltip += base::StrCat("group ", group, name.empty() ? "" : " (" + name + ")", ", worker");
    for (std::size_t w : seat->second.workers) tooltip += base::StrCat(" ", w);
  } else {
    tooltip += "no worker";
    for (std::size_t g = 0; g < picture_.plan.groups.size(); ++g) {
      const auto& cpus = picture_.plan.groups[g].cpus;
      if (!std::binary_search(cpus.begin(), cpus.end(), cpu.os_id)) continue;
      tooltip += ", may be used by group " + std::to_string(g);
      fill = Colour(static_cast<int>(g), 0.94);
    }
  }
  tooltip += "; core " + std::to_string(cpu.core);
  out_ << "<rect class=\"cpu\" data-cpu=\"" << cpu.os_id << "\" data-group=\"" << group << "\" x=\""
       << Number(at.x + 0.8) << "\" y=\"" << Number(at.y + 0.8) << "\" width=\"" << Number(kCellWidth - 1.6)
       << "\" height=\"" << Number(kCellHeight - 1.6) << "\" rx=\"3\" fill=\"" << fill << "\" stroke=\""
       << (group >= 0 ? Colour(group, 0.55) : "#c9d0da") << '"' << (group >= 0 ? "" : " stroke-dasharray=\"2 2\"")
       << "><title>" << tooltip << "</title></rect>\n";
  if (group < 0) {
    Label({at.x + kCellWidth / 2, at.y + 15}, std::to_string(cpu.os_id), "class=\"number idle\"");
    return;
  }
  Label({at.x + kCellWidth / 2, at.y + 11}, std::to_string(cpu.os_id), "class=\"number\"");
  std::string workers;
  const auto& numbers = seat->second.workers;
  if (numbers.size() <= 2) {
    for (std::size_t w : numbers) workers += base::StrCat(workers.empty() ? "w" : ",", w);
  } else {
    workers = base::StrCat(numbers.size(), " w");
  }
  Label({at.x + kCellWidth / 2, at.y + 19.5}, workers, "class=\"worker\"");
}

// Between names side by side a flat arc above them, otherwise around the boxes.
void Drawing::DrawArrow(const Anchor& from, const Anchor& to, bool both_ways, const char* kind) {
  const auto point = [](Point p) { return Number(p.x) + ' ' + Number(p.y); };
  std::string path = "M";
  if (std::abs(from.top - to.top) < 1) {
    const double right = from.left < to.left ? 0.75 : 0.25;
    const Point a{from.left + (from.right - from.left) * right, from.top};
    const Point b{to.left + (to.right - to.left) * (1 - right), to.top};
    const double bend = std::min(from.most_bend, 6 + std::abs(b.x - a.x) * 0.03);
    path += point(a) + " Q" + point({(a.x + b.x) / 2, a.y - bend}) + ' ' + point(b);
  } else {
    path += Around(from, to);
  }
  out_ << "<path class=\"" << kind << "\" d=\"" << path << "\" marker-end=\"url(#" << kind << "-head)\"";
  if (both_ways) out_ << " marker-start=\"url(#" << kind << "-head)\"";
  out_ << "/>\n";
}

// Out of the box at the nearer side, up or down beside it, and in from the side or from above.
std::string Drawing::Around(const Anchor& from, const Anchor& to) const {
  const auto side_of = [](const Anchor& anchor) {
    return anchor.above().x > anchor.box_at.x + anchor.box->width / 2 ? 1.0 : -1.0;
  };
  const double side = side_of(from);
  const bool same_box = from.box == to.box;
  const auto edge = [&](const Anchor& anchor) { return side > 0 ? anchor.right : anchor.left; };
  // Lines that go up keep clear of those that go down.
  const double clear = to.top < from.top ? 3 : 0;
  const double gutter = same_box ? edge(from) + side * (4 + clear)
                                 : from.box_at.x + (side > 0 ? from.box->width : 0) + side * (3 + clear);
  std::vector<Point> points = {{edge(from), (from.top + from.bottom) / 2}, {gutter, (from.top + from.bottom) / 2}};
  if (std::abs(edge(from) - edge(to)) < 1 && to.left < to.right) {
    points.push_back({gutter, (to.top + to.bottom) / 2});
    points.push_back({edge(to), (to.top + to.bottom) / 2});
  } else {
    const double above = same_box ? to.top - 8 : to.box_at.y - kGap / 2;
    const double in = to.above().x;
    points.push_back({gutter, above});
    points.push_back({in, above});
    points.push_back({in, to.top});
  }
  // Round corners.
  std::ostringstream path;
  path << Number(points[0].x) << ' ' << Number(points[0].y);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point corner = points[i];
    if (i + 1 == points.size()) {
      path << " L" << Number(corner.x) << ' ' << Number(corner.y);
      break;
    }
    const auto towards = [&](Point other) {
      const double length = std::hypot(other.x - corner.x, other.y - corner.y);
      const double part = length < 0.1 ? 0 : std::min(3.5, length / 2) / length;
      return Point{corner.x + (other.x - corner.x) * part, corner.y + (other.y - corner.y) * part};
    };
    const Point begin = towards(points[i - 1]);
    const Point end = towards(points[i + 1]);
    path << " L" << Number(begin.x) << ' ' << Number(begin.y) << " Q" << Number(corner.x) << ' ' << Number(corner.y)
         << ' ' << Number(end.x) << ' ' << Number(end.y);
  }
  return path.str();
}

// In a node: from each group to its first victim; if there are few groups, also to its first victim in another L3
// domain. Between nodes: from each node to the first victim of its groups.
void Drawing::DrawArrows() {
  const auto& groups = picture_.plan.groups;
  std::set<std::pair<int, int>> wanted;
  std::set<std::pair<int, int>> wanted_nodes;
  const auto l3_of = [&](const PlannedGroup& group) { return picture_.machine.FindCpu(group.worker_cpus.front())->l3; };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool other_l3 = groups.size() > kFewGroups;
    bool any = false;
    for (const auto& neighbour : groups[g].neighbours) {
      const PlannedGroup& other = groups[static_cast<std::size_t>(neighbour.group)];
      if (!neighbour.same_node) {
        wanted_nodes.emplace(groups[g].node, other.node);
        break;
      }
      const bool elsewhere = l3_of(other) != l3_of(groups[g]);
      if (!any || (elsewhere && !other_l3)) wanted.emplace(static_cast<int>(g), neighbour.group);
      any = true;
      other_l3 = other_l3 || elsewhere;
    }
  }
  const auto draw = [&](const std::set<std::pair<int, int>>& arrows, const std::map<int, Anchor>& points,
                        const char* kind) {
    for (const auto& [from, to] : arrows) {
      const bool both_ways = arrows.contains({to, from});
      if (both_ways && to < from) continue;
      const auto a = points.find(from);
      const auto b = points.find(to);
      if (a != points.end() && b != points.end()) DrawArrow(a->second, b->second, both_ways, kind);
    }
  };
  if (picture_.steal_every_n != 0) draw(wanted, band_of_group_, "near");
  draw(wanted_nodes, header_of_node_, picture_.cross_node_steal_every_n != 0 ? "far" : "off");
}

std::string Plural(std::size_t count, const std::string& what) {
  return base::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string Drawing::Summary() const {
  std::map<unsigned, std::size_t, std::greater<>> sizes;
  for (const PlannedGroup& group : picture_.plan.groups) ++sizes[group.workers];
  std::string text = Plural(picture_.machine.cpus.size(), "CPU");
  if (picture_.machine.cpu_quota) text += ", quota " + Number(*picture_.machine.cpu_quota);
  text += ": " + Plural(picture_.plan.groups.size(), "group") + " (";
  bool first = true;
  for (const auto& [size, count] : sizes) {
    text += base::StrCat(first ? "" : ", ", count, " of ", size);
    first = false;
  }
  return text + "), " + Plural(picture_.plan.WorkerCount(), "worker");
}

// Returns where it ends.
double Drawing::DrawLegend(Point at) {
  const auto every = [](std::int64_t n, const std::string& never) {
    return n == 0   ? never
           : n == 1 ? std::string("at each idle search")
                    : "at 1 of " + std::to_string(n) + " idle searches";
  };
  out_ << "<rect x=\"" << Number(at.x) << "\" y=\"" << Number(at.y) << "\" width=\"" << Number(kCellWidth)
       << "\" height=\"" << Number(kCellHeight) << "\" rx=\"3\" fill=\"" << Colour(0, 0.80) << "\" stroke=\""
       << Colour(0, 0.55) << "\"/>\n";
  Text({at.x + kCellWidth / 2, at.y + 11}, "12", "class=\"number\"");
  Text({at.x + kCellWidth / 2, at.y + 19.5}, "w3", "class=\"worker\"");
  Text({at.x + kCellWidth + 7, at.y + 15}, "CPU 12, on it worker 3 of the group of this colour", "class=\"legend\"");
  if (seats_.size() < picture_.machine.cpus.size()) {
    at.y += kCellHeight + 5;
    out_ << "<rect x=\"" << Number(at.x) << "\" y=\"" << Number(at.y) << "\" width=\"" << Number(kCellWidth)
         << "\" height=\"" << Number(kCellHeight) << "\" rx=\"3\" fill=\"" << Colour(0, 0.94)
         << "\" stroke=\"#c9d0da\" stroke-dasharray=\"2 2\"/>\n";
    Text({at.x + kCellWidth + 7, at.y + 15}, "no worker is planned here; tinted: those of the group may move here",
         "class=\"legend\"");
  }
  at.y += kCellHeight + 5;
  const auto sample = [&](const char* kind, const std::string& text) {
    DrawArrow({at.x, at.x, at.y + 12, at.y + 12}, {at.x + kCellWidth, at.x + kCellWidth, at.y + 12, at.y + 12}, false,
              kind);
    Text({at.x + kCellWidth + 7, at.y + 14}, text, "class=\"legend\"");
    at.y += 19;
  };
  if (picture_.plan.groups.size() > 1) {
    sample("near", "the first victim in its node: " + every(picture_.steal_every_n, "never"));
  }
  if (header_of_node_.size() > 1) {
    const bool off = picture_.cross_node_steal_every_n == 0;
    sample(off ? "off" : "far", "the nearest other node: " + every(picture_.cross_node_steal_every_n,
                                                                   "off (--fiber_cross_numa_work_stealing_ratio)"));
  }
  return at.y;
}

std::string Drawing::Draw() {
  Box machine = MakeTree();
  Measure(&machine);
  const double top = kMargin + 44;
  const double width = std::max(machine.width, 380.0) + 2 * kMargin;
  Text({kMargin, kMargin + 12}, picture_.title, "class=\"title\"");
  Text({kMargin, kMargin + 30}, Summary(), "class=\"summary\"");
  DrawBox(machine, {kMargin, top});
  DrawArrows();
  out_ << labels_.str();
  const double height = DrawLegend({kMargin, top + machine.height + 14}) + kMargin;
  const std::string content = std::exchange(out_, std::ostringstream()).str();
  out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << Number(width) << ' ' << Number(height)
       << "\" width=\"" << Number(width) << "\" height=\"" << Number(height) << "\">\n"
       << "<!-- Written by weft_topology. -->\n<style>\n"
       << "text { font-family: 'DejaVu Sans', Verdana, sans-serif; fill: " << kInk << "; }\n"
       << ".title { font-size: 15px; font-weight: bold; }\n.summary, .legend { font-size: 11px; }\n"
       << ".box { font-size: 10px; fill: " << kFaint
       << "; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }\n.strong { "
          "font-weight: bold; fill: #4a5565; }\n"
       << ".band { font-size: 8.5px; font-weight: bold; fill: #ffffff; text-anchor: middle; }\n"
       << ".number { font-size: 9px; text-anchor: middle; }\n.idle { fill: " << kFaint << "; }\n"
       << ".worker { font-size: 6.5px; text-anchor: middle; fill: #4a5565; }\n"
       << ".near, .far, .off { fill: none; }\n.near { stroke: #2b3442; stroke-width: 1.1; opacity: 0.75; }\n"
       << ".far { stroke: #b03a2e; stroke-width: 1.4; stroke-dasharray: 5 3; }\n"
       << ".off { stroke: #a3abb8; stroke-width: 1.2; stroke-dasharray: 5 3; }\n</style>\n<defs>\n";
  for (const auto& [kind, colour] :
       {std::pair("near", "#2b3442"), std::pair("far", "#b03a2e"), std::pair("off", "#a3abb8")}) {
    out_ << "<marker id=\"" << kind << "-head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
         << "markerHeight=\"6\" orient=\"auto-start-reverse\"><path d=\"M0 0.8 L8 4 L0 7.2 z\" fill=\"" << colour
         << "\"/></marker>\n";
  }
  out_ << "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  out_ << content << "</svg>\n";
  return out_.str();
}

}  // namespace

std::string DrawTopology(const Picture& picture) { return Drawing(picture).Draw(); }

}  // namespace weft::tools
