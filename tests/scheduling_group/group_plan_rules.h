// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The rules GP1 to GP10 of group_plan.h, each as a function from machine, wishes and plan to a message: empty if the
// rule is kept.  They share no code with the planner, and look at the plan's data only.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_GROUP_PLAN_RULES_H_
#define WEFT_TESTS_SCHEDULING_GROUP_GROUP_PLAN_RULES_H_

#include <string>

#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::scheduling_group::plan_rules {

using Rule = std::string (*)(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);

std::string Sizes(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);            // GP1
std::string Fewest(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);           // GP1
std::string FewAndEqual(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);      // GP1
std::string WithinNodes(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);      // GP2
std::string NothingLeftOver(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);  // GP3
std::string EvenDomains(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);      // GP3
std::string FewTogether(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);      // GP4
std::string CoresFirst(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);       // GP5
std::string Siblings(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);         // GP6
std::string WholeL3Domains(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);   // GP7
std::string PlannedCpus(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);      // GP8
std::string NearestFirst(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);     // GP9
std::string NotAllTheFirst(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);   // GP9
std::string OneKind(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);          // GP10
std::string FastCoresFirst(const numa::Topology& machine, const PlanWishes& wishes, const GroupPlan& plan);   // GP10

struct NamedRule {
  const char* name;
  Rule rule;
};
inline constexpr NamedRule kRules[] = {
    {"GP1 Sizes", Sizes},
    {"GP1 Fewest", Fewest},
    {"GP1 FewAndEqual", FewAndEqual},
    {"GP2 WithinNodes", WithinNodes},
    {"GP3 NothingLeftOver", NothingLeftOver},
    {"GP3 EvenDomains", EvenDomains},
    {"GP4 FewTogether", FewTogether},
    {"GP5 CoresFirst", CoresFirst},
    {"GP6 Siblings", Siblings},
    {"GP7 WholeL3Domains", WholeL3Domains},
    {"GP8 PlannedCpus", PlannedCpus},
    {"GP9 NearestFirst", NearestFirst},
    {"GP9 NotAllTheFirst", NotAllTheFirst},
    {"GP10 OneKind", OneKind},
    {"GP10 FastCoresFirst", FastCoresFirst},
};

}  // namespace weft::scheduling_group::plan_rules

#endif  // WEFT_TESTS_SCHEDULING_GROUP_GROUP_PLAN_RULES_H_
