// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/http/server.h"
void AddItem(http::Request& request, http::Response& response);
