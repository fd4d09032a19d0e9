// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_loop.h"

#include "weft/base/report/check.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/loop/loop_core.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace {

using fiber::detail::LoopCore;
using scheduling_group::FiberEntity;
using scheduling_group::StartOptions;

// What a task's fiber runs. As large as what fits into an entity.
struct TaskBody {
  FiberLoop::Task task;

  void operator()() {
    const LoopCore* const core = LoopCore::OfCaller();
    const auto& on_exception = core->options().on_exception;
    if (!on_exception) return task();
    try {
      task();
    } catch (...) {
      on_exception(std::current_exception());
    }
  }
};
static_assert(sizeof(TaskBody) <= FiberEntity::kInlineCallable);

}  // namespace

class FiberLoop::Impl final : public LoopCore {
 public:
  using LoopCore::LoopCore;

  bool Start(const char* caller, const FiberAttributes* attributes, Task task) {
    fiber::detail::CheckNotEmpty(caller, task);
    fiber::detail::StartPlan plan;
    plan.group = &group();
    if (fiber::detail::StartIsRefused(plan.group)) plan.refusal = StartRefusal::kNoRuntime;
    if (attributes != nullptr) {
      plan.options = StackOptionsOf(caller, *attributes);
      plan.options.name = attributes->name.empty() ? nullptr : attributes->name.c_str();
      plan.options.execution_context = base::RefPtr<FiberExecutionContext>(attributes->execution_context).Leak();
      plan.context.Own(plan.options.execution_context);
    }
    plan.options.group_local = true;
    return fiber::detail::Start(caller, std::move(plan), TaskBody{std::move(task)}) == StartRefusal::kNone;
  }

 private:
  static StartOptions StackOptionsOf(const char* caller, const FiberAttributes& attributes) {
    fiber::detail::CheckAttributes(caller, attributes);
    StartOptions options;
    options.stack_size = attributes.stack_size;
    options.guard_size = attributes.stack_guard_size;
    return options;
  }
};

FiberLoop::FiberLoop() : FiberLoop(Options()) {}

FiberLoop::FiberLoop(Options options) : impl_(std::make_unique<Impl>(this, std::move(options))) {}

FiberLoop::~FiberLoop() {
  if (!impl_->MayBeDestroyed()) static_cast<void>(impl_.release());
}

bool FiberLoop::AddTask(Task f) {
  impl_->CheckOwner("FiberLoop::AddTask");
  return impl_->Start("FiberLoop::AddTask", nullptr, std::move(f));
}

bool FiberLoop::AddTask(const FiberAttributes& attributes, Task f) {
  impl_->CheckOwner("FiberLoop::AddTask");
  return impl_->Start("FiberLoop::AddTask", &attributes, std::move(f));
}

bool FiberLoop::AddTaskRemote(Task f) { return impl_->Start("FiberLoop::AddTaskRemote", nullptr, std::move(f)); }

bool FiberLoop::AddTaskEager(Task f) {
  constexpr const char* kName = "FiberLoop::AddTaskEager";
  impl_->CheckOwner(kName);
  fiber::detail::CheckNotEmpty(kName, f);
  if (fiber::detail::StartIsRefused(&impl_->group())) return false;
  FiberEntity* fiber = NewFiber(&impl_->group(), StartOptions{.group_local = true}, TaskBody{std::move(f)});
  if (fiber == nullptr) return false;
  fiber->set_execution_context(FiberExecutionContext::Capture().Leak());
  impl_->RunEagerly(fiber);
  return true;
}

void FiberLoop::CallInMainContext(void (*call)(void*), void* argument) {
  impl_->CheckOwner("FiberLoop::RunInMainContext");
  struct Call {
    void (*call)(void*);
    void* argument;
    FiberExecutionContext* context;
  };
  Call with_context{.call = call, .argument = argument, .context = FiberExecutionContext::Current()};
  impl_->CallInMainContext(
      [](void* self) {
        const auto& with = *static_cast<Call*>(self);
        if (with.context == nullptr) return with.call(with.argument);
        with.context->Execute([&] { with.call(with.argument); });
      },
      &with_context);
}

FiberLoop* FiberLoop::Current() noexcept {
  const LoopCore* const core = LoopCore::OfCaller();
  return core != nullptr ? core->loop() : nullptr;
}

bool FiberLoop::RunReady() {
  impl_->RunReady("FiberLoop::RunReady", impl_->options().longest_run);
  return HasTasks();
}

void FiberLoop::LoopUntilNoReady() { impl_->RunReady("FiberLoop::LoopUntilNoReady", std::chrono::nanoseconds(0)); }

bool FiberLoop::Run(Deadline deadline) {
  return impl_->RunUntilTrue(
      "FiberLoop::Run", [](void* loop) { return !static_cast<FiberLoop*>(loop)->HasTasks(); }, this, deadline);
}

bool FiberLoop::RunUntilTrue(bool (*predicate)(void*), void* argument, Deadline deadline) {
  return impl_->RunUntilTrue("FiberLoop::RunUntil", predicate, argument, deadline);
}

bool FiberLoop::RunUntil(FiberEvent& event, Deadline deadline) {
  if (event.IsSet()) return true;
  bool over = false;
  WEFT_CHECK(AddTask([&] {
               static_cast<void>(synchronization::WaitAccess::WaitUncancelled(event, deadline));
               over = true;
             }),
             "FiberLoop::RunUntil: no memory for a fiber");
  RunUntil([&] { return over; });
  return event.IsSet();
}

void FiberLoop::Wake() { impl_->EndWait(); }

std::size_t FiberLoop::TaskCount() const noexcept { return impl_->live_fibers(); }

std::size_t FiberLoop::StackHighWater() const noexcept { return impl_->group().group_stacks().high_water(); }

int FiberLoop::NotifyFd(std::error_code* error) {
  impl_->CheckOwner("FiberLoop::NotifyFd");
  return impl_->NotifyFd(error);
}

Deadline FiberLoop::NextDeadline() const noexcept { return impl_->NextDeadline(); }

}  // namespace weft
