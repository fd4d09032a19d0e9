// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IsHost(), SetTarget(): whom and what a request asks (RFC 9112, 3.2).
#ifndef WEFT_HTTP_CONNECTION_REQUEST_TARGET_H_
#define WEFT_HTTP_CONNECTION_REQUEST_TARGET_H_

#include <string>
#include <string_view>

namespace weft::http {

// Whether it is a name or an address, with or without a port: what Host may say. A comma is none of a name's signs here
// although URIs allow it: it is the mark of a second Host that somebody has joined to the first.
bool IsHost(std::string_view text);

// Sets the target that was sent: "/path?query". As sent to a proxy, and to be understood by all, it is
// "http://host/path?query"; the scheme is written in any case, and may be https. Then *host is its host, which counts
// instead of the field Host. False: this is not valid.
[[nodiscard]] bool SetTarget(std::string_view sent, std::string* target, std::string* host);

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_REQUEST_TARGET_H_
