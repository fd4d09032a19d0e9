// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <boost/asio/ssl.hpp>
#include <boost/beast.hpp>
io::TcpStream tcp;
boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
boost::beast::flat_buffer buffer;
boost::beast::http::request<boost::beast::http::string_body> request;
boost::system::error_code error;
