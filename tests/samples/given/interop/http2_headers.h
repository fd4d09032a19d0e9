// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
void Log(std::string_view name, std::string_view value);
