// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// IsHost(), SetTarget(): whom and what a request asks (RFC 9112, 3.2).
#ifndef WEFT_EXAMPLES_HTTP_SERVER_REQUEST_TARGET_H_
#define WEFT_EXAMPLES_HTTP_SERVER_REQUEST_TARGET_H_

#include <string>
#include <string_view>

namespace examples {

// Whether it is a name or an address, with or without a port: what Host may say. A comma is none of a name's signs here
// although URIs allow it: it is the mark of a second Host that somebody has joined to the first.
bool IsHost(std::string_view text);

// Sets the target that was sent: "/path?query". As sent to a proxy, and to be understood by all, it is
// "http://host/path?query"; the scheme is written in any case, and may be https. False: this has no valid host.
[[nodiscard]] bool SetTarget(std::string_view sent, std::string* target);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_REQUEST_TARGET_H_
