// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpSignal(): the signal that DumpFibersOnSignal() has taken.
#ifndef WEFT_OBSERVE_DUMP_DUMP_SIGNAL_H_
#define WEFT_OBSERVE_DUMP_DUMP_SIGNAL_H_

namespace weft::observe {

// Any thread. 0: none.
int DumpSignal() noexcept;

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_DUMP_SIGNAL_H_
