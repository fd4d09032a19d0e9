// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/admin_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/str_cat.h"
#include "weft/io/socket_address.h"
#include "weft/sync/cancel_scope.h"

namespace weft::http {
namespace {

bool IsLocal(const io::SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(address.data());
    return ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (address.family() == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr);
  }
  return address.is_unix();
}

Routes RoutesOf(AdminPages* pages) {
  Routes routes;
  pages->AddTo(&routes, "/");
  return routes;
}

AdminPages::Options PageOptions(const AdminServer::Options& options) {
  AdminPages::Options pages = options.pages;
  pages.any_host = pages.any_host || options.any_address;
  return pages;
}

}  // namespace

AdminServer::AdminServer(Options options)
    : options_(std::move(options)), pages_(PageOptions(options_)), http_(RoutesOf(&pages_)) {}

AdminServer::~AdminServer() {
  Shielded([this] { Stop(); });
}

bool AdminServer::Listen(std::string_view address, std::string* why) {
  const std::optional<io::SocketAddress> parsed = io::SocketAddress::Parse(address);
  if (!parsed) {
    *why = base::StrCat(address, ": expected 127.0.0.1:port, [::1]:port or unix:/path");
    return false;
  }
  if (!IsLocal(*parsed) && !options_.any_address) {
    *why = base::StrCat(address,
                        ": others can reach this address, and would see all of the process; this has not been allowed");
    return false;
  }
  const std::error_code error = listener_.Listen(*parsed);
  if (error) *why = base::StrCat("cannot listen on ", address, ": ", error.message());
  return !error;
}

bool AdminServer::Start() {
  WEFT_CHECK(!server_.has_value(), "AdminServer::Start: it serves already");
  server_.emplace(std::move(listener_), http_.ForTcpServer());
  return server_->Start();
}

void AdminServer::Stop() {
  if (server_.has_value()) server_->Stop(std::chrono::seconds(1));
  server_.reset();
}

std::string AdminServer::url() const {
  const io::SocketAddress address = server_.has_value() ? server_->local_address() : listener_.local_address();
  return address.is_unix() ? address.ToString() : "http://" + address.ToString() + "/";
}

}  // namespace weft::http
