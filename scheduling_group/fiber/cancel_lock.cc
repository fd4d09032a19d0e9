// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/cancel_lock.h"

namespace weft::scheduling_group {

#ifdef WEFT_MODEL_CHECK
base::Atomic<std::uint32_t>* model_cancellers = nullptr;
#else
constinit base::Atomic<std::uint32_t> cancellers{0};
#endif

}  // namespace weft::scheduling_group
