// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_registry.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/policy/policy_v1.h"
#include "weft/scheduling_group/policy/policy_v2.h"

namespace weft::scheduling_group {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, SchedulingPolicyFactory, std::less<>> factories{
      {"v1",
       [](const SchedulingPolicy::Options& options) {
         return std::unique_ptr<SchedulingPolicy>(new (numa::OnNode{options.node}) PolicyV1(options));
       }},
      {"v2",
       [](const SchedulingPolicy::Options& options) {
         return std::unique_ptr<SchedulingPolicy>(new (numa::OnNode{options.node}) PolicyV2(options));
       }},
  };
};

Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

}  // namespace

bool RegisterSchedulingPolicy(std::string_view name, SchedulingPolicyFactory factory) {
  Registry& registry = TheRegistry();
  std::scoped_lock lock(registry.mutex);
  return registry.factories.emplace(std::string(name), std::move(factory)).second;
}

std::unique_ptr<SchedulingPolicy> CreateSchedulingPolicy(std::string_view name,
                                                         const SchedulingPolicy::Options& options) {
  SchedulingPolicyFactory factory;
  {
    Registry& registry = TheRegistry();
    std::scoped_lock lock(registry.mutex);
    auto it = registry.factories.find(name);
    if (it == registry.factories.end()) return nullptr;
    factory = it->second;
  }
  return factory(options);  // Without the lock: a factory may create another policy.
}

std::vector<std::string> SchedulingPolicyNames() {
  Registry& registry = TheRegistry();
  std::scoped_lock lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry.factories) names.push_back(name);
  return names;
}

}  // namespace weft::scheduling_group
