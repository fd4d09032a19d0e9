// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Asks examples/http_server by Beast's asynchronous client, in fibers (weft::use_fiber): for beast_client_test.py.
//   beast_client <port> <workers> <policy> <threads of the io_context>
// Exit status 0: each answer was right.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/use_fiber.h"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using weft::use_fiber;

constexpr int kFibers = 30;
constexpr int kRequests = 20;

std::string Ask(beast::tcp_stream& stream, beast::flat_buffer& buffer, http::verb verb, const std::string& target,
                const std::string& body) {
  http::request<http::string_body> request(verb, target, 11);
  request.set(http::field::host, "localhost");
  request.body() = body;
  request.prepare_payload();
  http::async_write(stream, request, use_fiber);
  http::response<http::string_body> response;
  http::async_read(stream, buffer, response, use_fiber(30s));
  if (response.result() != http::status::ok) return "status " + std::to_string(response.result_int());
  return response.body();
}

// How many answers were right.
int AskAll(asio::io_context& io, unsigned short port, int number) {
  beast::tcp_stream stream(io);
  stream.async_connect(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port), use_fiber(30s));
  beast::flat_buffer buffer;
  int right = 0;
  for (int i = 0; i < kRequests; ++i) {
    const std::string body(static_cast<std::size_t>(number) * 1000, static_cast<char>('a' + i));
    right += i % 2 == 0 ? Ask(stream, buffer, http::verb::post, "/echo", body) == body
                        : Ask(stream, buffer, http::verb::get, "/plaintext", "") == "Hello, World!";
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto port = static_cast<unsigned short>(std::stoi(argv[1]));
  weft::RuntimeOptions options;
  options.concurrency_hint = options.scheduling_group_size = std::stoi(argv[2]);
  options.scheduling_name = argv[3];
  weft::StartRuntime(options);

  std::atomic<int> right{0};
  {
    asio::io_context io;
    auto work = asio::make_work_guard(io);
    std::vector<std::thread> threads;
    for (int i = 0; i < std::stoi(argv[4]); ++i) threads.emplace_back([&io] { io.run(); });
    std::vector<weft::Fiber> fibers;
    for (int i = 0; i < kFibers; ++i) {
      fibers.emplace_back([&, i] {
        try {
          right += AskAll(io, port, i);
        } catch (const std::exception& thrown) {
          std::cerr << "fiber " << i << ": " << thrown.what() << '\n';
        }
      });
    }
    for (weft::Fiber& fiber : fibers) fiber.Join();
    work.reset();
    for (std::thread& thread : threads) thread.join();
  }
  weft::TerminateRuntime();
  std::cout << right << " of " << kFibers * kRequests << " answers are right" << std::endl;
  return right == kFibers * kRequests ? 0 : 1;
}
