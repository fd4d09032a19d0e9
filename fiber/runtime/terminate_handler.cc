// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/terminate_handler.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <typeinfo>

#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/fiber/runtime/unfinished_fibers.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::fiber::detail {

namespace {

std::terminate_handler former = nullptr;

std::string TypeName(const std::type_info& type) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = demangled != nullptr ? demangled : type.name();
  std::free(demangled);
  return name;
}

std::string WhyTerminate() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) {
    return base::IsInThreadExit() ? "pthread_exit() was called, or its worker's thread was cancelled: a fiber ends by "
                                    "returning from its function"
                                  : "without an exception, std::terminate() was called, or pthread_exit()";
  }
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return base::StrCat("an exception was not caught: ", TypeName(typeid(error)), ": ", error.what());
  } catch (...) {
    return base::StrCat("an exception was not caught: ", TypeName(*abi::__cxa_current_exception_type()));
  }
}

void OnTerminate() {
  if (const auto* const fiber = scheduling_group::CurrentFiber()) {
    WEFT_LOG(ERROR, DescribeFiber(*fiber), ": ", WhyTerminate());
  }
  if (former != nullptr) former();
  std::abort();
}

}  // namespace

void InstallTerminateHandler() { former = std::set_terminate(&OnTerminate); }

}  // namespace weft::fiber::detail
