// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/interop/http2_client.h"
extern const interop::Http2Answer& answer;
void AskAgainElsewhere();
