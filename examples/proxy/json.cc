// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Boost.JSON, compiled here: so that its headers are enough (Debian: libboost1.81-dev).
#include <boost/json/src.hpp>
