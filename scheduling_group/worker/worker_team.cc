// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/worker_team.h"

#include <pthread.h>

#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {

WorkerTeam::~WorkerTeam() { WEFT_CHECK(threads_.empty(), "WorkerTeam: destroyed without Join()"); }

bool WorkerTeam::Start() {
  const SchedulingGroup::Options& options = group_->options();
  threads_.reserve(group_->size());
  ended_ = std::make_unique<base::Parker[]>(group_->size());
  watched_ = Watchdog::Get().AddTeam();
  if (!watched_) {
    group_->Stop();
    return false;
  }
  for (unsigned w = 0; w < group_->size(); ++w) {
    std::vector<int> cpus = options.cpus;
    if (w < options.worker_cpus.size() && options.worker_cpus[w] >= 0) cpus = {options.worker_cpus[w]};
    try {
      threads_.emplace_back([this, w, cpus = std::move(cpus)] { RunWorker(w, cpus); });
    } catch (const std::exception& error) {  // No thread, or no memory.
      group_->Stop();
      static_cast<void>(Join());
      WEFT_LOG(ERROR, "WorkerTeam: no thread for worker ", w, " of group ", group_->Label(), ": ", error.what());
      return false;
    }
  }
  return true;
}

void WorkerTeam::RunWorker(unsigned index, const std::vector<int>& cpus) {
  const std::string name = "FiberWorker_" + std::to_string(group_->id()) + "_" + std::to_string(index);
  const std::string suffix = "_" + std::to_string(index);
  ::pthread_setname_np(::pthread_self(), group_->ThreadName(name, suffix).c_str());
  if (!cpus.empty()) {
    if (const std::error_code error = numa::BindThread(cpus)) {
      WEFT_LOG(WARNING, name, ": the kernel refuses to bind it to CPU ", numa::FormatCpuList(cpus), ": ",
               error.message(), "; it may run where the process may");
    }
  }
  context::AlternateSignalStack signal_stack;
  std::unique_ptr<Worker> worker(new (numa::OnNode{group_->node()}) Worker(group_, index));
  const bool in_time = worker->Run();
  worker.reset();
  if (in_time) {
    ended_[index].Unpark();
  } else {
    LeftThreads::Remove();
  }
}

std::vector<LeftWorker> WorkerTeam::Join(Deadline deadline) {
  std::vector<LeftWorker> all_left;
  for (unsigned w = 0; w < threads_.size(); ++w) {
    LeftWorker left;
    left.group = group_->id();
    left.worker = w;
    const bool in_time = deadline.is_none() || ended_[w].ParkUntil(deadline.time_point());
    if (!in_time && group_->worker_slot(w).life.LeaveBehind(&left)) {
      threads_[w].detach();
      all_left.push_back(std::move(left));
    } else {
      threads_[w].join();
    }
  }
  threads_.clear();
  if (std::exchange(watched_, false)) Watchdog::Get().RemoveTeam();
  return all_left;
}

}  // namespace weft::scheduling_group
