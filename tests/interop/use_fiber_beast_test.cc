// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Boost.Beast's asynchronous HTTP and WebSocket clients, called from fibers by weft::use_fiber. The WebSocket server is
// Beast's too, on our own sockets (io/asio_stream.h).

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/interop/use_fiber.h"
#include "weft/io/asio_stream.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_latch.h"

#include "interop/asio_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;
using Steady = std::chrono::steady_clock;

bool ReadMore(io::TcpStream& tcp, std::string* text) {
  char room[16'000];
  const io::IoResult got = tcp.ReadSome(room, sizeof(room), 60s);
  text->append(room, got.bytes);
  return got.ok() && got.bytes > 0;
}

// Answers with path and body; to /silence not at all. It knows what RequestOf() makes, and no more: Beast's server is
// in tests/io/asio_stream_test.cc, and takes long to compile.
void ServeHttp(io::TcpStream& tcp) {
  const std::string_view length = "\r\nContent-Length: ";
  std::string text;
  for (;;) {
    std::size_t end;
    while ((end = text.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadMore(tcp, &text)) return;
    }
    const std::string head = text.substr(0, end);
    text.erase(0, end + 4);
    const std::size_t path = head.find(' ') + 1;
    const std::size_t size = std::stoul(head.substr(head.find(length) + length.size()));
    while (text.size() < size) {
      if (!ReadMore(tcp, &text)) return;
    }
    const std::string answer = head.substr(path, head.find(' ', path) - path) + ' ' + text.substr(0, size);
    text.erase(0, size);
    if (answer.starts_with("/silence")) continue;
    const std::string fields = "HTTP/1.1 200 OK" + std::string(length) + std::to_string(answer.size()) + "\r\n\r\n";
    if (!tcp.WriteAll(fields + answer, 60s).ok()) return;
  }
}

// Without compression, which nobody asks for.
template <class Stream>
using WebSocket = websocket::stream<Stream, /*deflateSupported=*/false>;

// An echo; no answer to an empty message.
void ServeWebSocket(io::TcpStream& tcp) {
  WebSocket<io::AsioStream> socket{io::AsioStream(&tcp)};
  error_code error;
  socket.accept(error);
  beast::flat_buffer buffer;
  while (!error) {
    socket.read(buffer, error);
    if (!error && buffer.size() > 0) socket.write(buffer.data(), error);
    buffer.clear();
  }
}

class UseFiberBeastTest : public WithIoContext {
 protected:
  void Serve(io::TcpServer::Handler handler) {
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::SocketAddress::LoopbackIpv4(0)));
    server_.emplace(std::move(listener), std::move(handler));
    ASSERT_TRUE(server_->Start());
  }
  void TearDown() override {
    if (server_.has_value()) server_->Stop(0s);
  }
  asio::ip::tcp::endpoint address() const {
    return {asio::ip::address_v4::loopback(), static_cast<unsigned short>(server_->local_address().port())};
  }

  // In so many fibers.
  template <class F>
  static void InFibers(int count, F&& f) {
    FiberLatch all_done(count);
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(StartFiberDetached([&, i] {
        f(i);
        all_done.CountDown();
      }));
    }
    all_done.Wait();
  }

 private:
  std::optional<io::TcpServer> server_;
};
WEFT_INSTANTIATE_INTEROP_SHAPES(UseFiberBeastTest);

http::request<http::string_body> RequestOf(std::string path, std::size_t body) {
  http::request<http::string_body> request(http::verb::post, std::move(path), 11);
  request.body() = std::string(body, 'b');
  request.prepare_payload();
  return request;
}

TEST_P(UseFiberBeastTest, EachOfManyFibersGetsItsOwnAnswers) {
  Serve(ServeHttp);
  InFibers(10, [&](int i) {
    beast::tcp_stream stream(io_);
    stream.async_connect(address(), use_fiber(30s));
    beast::flat_buffer buffer;
    for (int k = 0; k < 5; ++k) {
      const auto request = RequestOf('/' + std::to_string(i) + '/' + std::to_string(k), k * 10'000);
      EXPECT_GT(http::async_write(stream, request, use_fiber), 0u);
      http::response<http::string_body> response;
      // By turns with a strand of its own and without.
      EXPECT_GT(http::async_read(stream, buffer, response, k % 2 == 0 ? use_fiber : use_fiber(30s)), 0u);
      EXPECT_EQ(response.body(), std::string(request.target()) + ' ' + request.body());
    }
  });
}

TEST_P(UseFiberBeastTest, AnAnswerThatDoesNotComeIsTimedOut) {
  Serve(ServeHttp);
  InFibers(5, [&](int) {
    beast::tcp_stream stream(asio::make_strand(io_));
    stream.async_connect(address(), use_fiber(30s));
    http::async_write(stream, RequestOf("/silence", 0), use_fiber);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    error_code error;
    const auto begin = Steady::now();
    http::async_read(stream, buffer, response, use_fiber(3ms)[error]);
    EXPECT_EQ(error, asio::error::timed_out);
    EXPECT_GE(Steady::now() - begin, 3ms);
  });
}

TEST_P(UseFiberBeastTest, AnAnswerThatDoesNotComeIsGivenUpWithItsScope) {
  Serve(ServeHttp);
  InFibers(5, [&](int) {
    beast::tcp_stream stream(asio::make_strand(io_));
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    CancelScope scope;
    bool asked = false;
    Fiber canceller;
    EXPECT_FALSE(scope.Run([&] {
      stream.async_connect(address(), use_fiber);
      http::async_write(stream, RequestOf("/silence", 0), use_fiber);
      asked = true;
      canceller = Fiber([&] { EXPECT_TRUE(scope.Cancel()); });
      http::async_read(stream, buffer, response, use_fiber);
      ADD_FAILURE() << "it was answered";
    }));
    EXPECT_TRUE(asked);
    canceller.Join();
  });
}

TEST_P(UseFiberBeastTest, AConnectionThatIsRefusedIsAnError) {
  asio::ip::tcp::endpoint nobody;
  {
    asio::ip::tcp::acceptor closed(io_, {asio::ip::address_v4::loopback(), 0});
    nobody = closed.local_endpoint();
  }
  InFiberAndInThread([&] {
    beast::tcp_stream stream(io_);
    EXPECT_THROW(stream.async_connect(nobody, use_fiber(30s)), boost::system::system_error);
  });
}

TEST_P(UseFiberBeastTest, WebSocketsAreSpokenTo) {
  Serve(ServeWebSocket);
  InFibers(5, [&](int i) {
    WebSocket<beast::tcp_stream> socket(asio::make_strand(io_));
    beast::get_lowest_layer(socket).async_connect(address(), use_fiber);
    beast::get_lowest_layer(socket).expires_never();
    socket.async_handshake("weft.test", "/", use_fiber(30s));
    for (const std::size_t size : {1, 100, 100'000}) {
      const std::string message(size, static_cast<char>('a' + i));
      EXPECT_EQ(socket.async_write(asio::buffer(message), use_fiber), size);
      beast::flat_buffer buffer;
      EXPECT_EQ(socket.async_read(buffer, use_fiber(30s)), size);
      EXPECT_EQ(beast::buffers_to_string(buffer.data()), message);
    }
    if (i % 2 == 0) {
      socket.async_close(websocket::close_code::normal, use_fiber);
    } else {
      beast::flat_buffer buffer;
      error_code error;
      socket.async_write(asio::const_buffer(), use_fiber);
      socket.async_read(buffer, use_fiber(2ms)[error]);
      EXPECT_EQ(error, asio::error::timed_out);
    }
  });
}

}  // namespace
}  // namespace weft::interop
