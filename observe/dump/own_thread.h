// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OnOwnThread(): calls f on a thread made for it, where the caller is a fiber: libdw and the names of functions want
// more stack than a fiber may have, and other fibers run on its worker meanwhile. Not a thread of FiberBlocking()'s
// pool: that all of these hang may be what one looks for.
// A plain thread calls f itself. So does a fiber, if the system makes no thread.
// Switches; not cancelled. What f throws arrives at the caller.
#ifndef WEFT_OBSERVE_DUMP_OWN_THREAD_H_
#define WEFT_OBSERVE_DUMP_OWN_THREAD_H_

#include <functional>

namespace weft::observe {

void OnOwnThread(const std::function<void()>& f);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_OWN_THREAD_H_
