// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/http/admin_pages.h"
#include "weft/http/server.h"
