// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OwnSignals(): signals that the library handles for itself, for dumps. Their handlers wake no fiber.
#ifndef WEFT_OBSERVE_DUMP_OWN_SIGNALS_H_
#define WEFT_OBSERVE_DUMP_OWN_SIGNALS_H_

#include <signal.h>

#include <cstdint>

namespace weft::observe {

// `action` is, or will be, that of `signal`. Any thread.
void AddOwnSignal(int signal, const struct sigaction& action) noexcept;

// Those whose handler is still the library's, as a mask (signal n: bit n - 1). Any thread.
std::uint64_t OwnSignals() noexcept;

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_OWN_SIGNALS_H_
