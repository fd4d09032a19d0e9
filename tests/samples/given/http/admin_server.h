// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string>

#include "weft/http/admin_server.h"
int Fail(const std::string& why);
