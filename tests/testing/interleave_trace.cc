// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave_trace.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace weft::model {
namespace {

constexpr const char* kOpNames[] = {
    "load",     "store",      "exchange",         "fetch_add", "fetch_sub",   "fetch_and",
    "fetch_or", "fetch_xor",  "compare_exchange", "fence",     "heavy fence", "reads",
    "writes",   "parks",      "is unparked",      "times out", "unparks",     "futex wait",
    "is woken", "futex wake", "is blocked by",    "spins",     "chooses",     "",
    "ends"};

const char* OrderName(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

std::string Number(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 100'000 ? "%" PRIu64 : "0x%" PRIx64, value);
  return text;
}

}  // namespace

void Trace::Name(const void* address, std::size_t size, std::string name) {
  names_.push_back({static_cast<const char*>(address), size, std::move(name)});
}

std::string Trace::NameOf(const void* address, std::size_t size) const {
  const auto* at = static_cast<const char*>(address);
  const NamedRange* best = nullptr;
  for (const NamedRange& range : names_) {
    if (range.begin <= at && at < range.begin + range.size && (best == nullptr || range.size <= best->size)) {
      best = &range;
    }
  }
  if (best == nullptr) {
    char text[32];
    std::snprintf(text, sizeof(text), "%p", address);
    return text;
  }
  const auto offset = static_cast<std::uint64_t>(at - best->begin);
  return offset == 0 && (size == 0 || best->size <= size) ? best->name : best->name + "+" + Number(offset);
}

std::string Trace::Describe(const TraceEntry& entry) const {
  std::string text;
  const std::string name = entry.address != nullptr ? NameOf(entry.address, entry.size) : std::string();
  const std::string order = OrderName(entry.order);
  const char* op = kOpNames[static_cast<int>(entry.op)];
  switch (entry.op) {
    case Op::kLoad:
      text += name + ".load(" + order + ") = " + Number(entry.a);
      break;
    case Op::kStore:
      text += name + ".store(" + Number(entry.b) + ", " + order + ")";
      break;
    case Op::kExchange:
    case Op::kAdd:
    case Op::kSub:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
      text += name + "." + op + "(" + order + "): " + Number(entry.a) + " -> " + Number(entry.b);
      break;
    case Op::kCompareExchange:
      text += name + ".compare_exchange(" + order + "): ";
      text += entry.done ? Number(entry.a) + " -> " + Number(entry.b) : "failed, found " + Number(entry.a);
      break;
    case Op::kFence:
      text += "fence(" + order + ")";
      break;
    case Op::kForcedFence:
      text += std::string(op) + ": of thread " + Number(entry.a);
      break;
    case Op::kPark:
    case Op::kParked:
    case Op::kUnpark:
      text += std::string(op) + " (parker " + Number(entry.a) + ")";
      break;
    case Op::kFutexWait:
      text += std::string(op) + " on " + name + " = " + Number(entry.a) + ", expected " + Number(entry.b);
      break;
    case Op::kChoose:
      text += std::string(op) + " " + Number(entry.a);
      break;
    case Op::kNote:
      text += std::string("-- ") + entry.text;
      break;
    default:
      text += std::string(op) + (name.empty() ? "" : " " + name);
      break;
  }
  if (entry.weak) {
    text += entry.op == Op::kLoad || !entry.done ? "   <- an old value; the newest is "
                                                 : "   <- behind an old value; the newest is ";
    text += Number(entry.newest);
  }
  return text;
}

std::string Trace::Text(const std::vector<std::string>& threads) const {
  std::string text;
  int number = 0;
  for (const TraceEntry& entry : entries_) {
    if (entry.thread == 0 && entry.op != Op::kNote) continue;  // Setting up.
    char head[64];
    std::snprintf(head, sizeof(head), "  %3d  %-12s ", ++number, threads[entry.thread].c_str());
    text += head;
    text += Describe(entry);
    text += "\n";
  }
  return text;
}

}  // namespace weft::model
