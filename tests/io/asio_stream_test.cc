// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/asio_stream.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

static_assert(beast::is_sync_stream<AsioStream>::value);

// Without compression, which nobody asks for.
using WebSocket = beast::websocket::stream<AsioStream, /*deflateSupported=*/false>;

class AsioStreamTest : public IoTest {
 protected:
  // What Asio opens for its timers, once, is no leak of a test.
  static void SetUpTestSuite() { const asio::steady_timer timer(AsioStream(nullptr).get_executor()); }
};
WEFT_INSTANTIATE_IO_SHAPES(AsioStreamTest);

// A key and a certificate of its own.
asio::ssl::context ServerContext() {
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const Certificate certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("weft.test"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  asio::ssl::context context(asio::ssl::context::tls_server);
  EXPECT_EQ(SSL_CTX_use_certificate(context.native_handle(), certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.native_handle(), key.get()), 1);
  return context;
}

// Once as fibers, once as threads.
void Both(const std::function<void(TcpStream&)>& server_does, const std::function<void(TcpStream&)>& client_does) {
  for (const bool in_fiber : {true, false}) {
    Pair pair = ConnectedPair();
    Actor server(in_fiber, [&] { server_does(pair.server); });
    Actor client(in_fiber, [&] { client_does(pair.client); });
    server.Join();
    client.Join();
  }
}

// An HTTP server's connection: answers with what it was asked, until the peer has finished.
template <class Stream>
void ServeHttp(Stream& stream) {
  beast::flat_buffer buffer;
  boost::system::error_code error;
  for (;;) {
    http::request<http::string_body> request;
    http::read(stream, buffer, request, error);
    if (error == http::error::end_of_stream) return;
    ASSERT_FALSE(error) << error.message();
    http::response<http::string_body> response(http::status::ok, request.version());
    response.body() = std::string(request.target()) + ' ' + request.body();
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    http::write(stream, response, error);
    ASSERT_FALSE(error) << error.message();
    if (!response.keep_alive()) return;
  }
}

template <class Stream>
void AskHttp(Stream& stream, int requests) {
  beast::flat_buffer buffer;
  for (int i = 0; i < requests; ++i) {
    http::request<http::string_body> request(http::verb::post, "/" + std::to_string(i), 11);
    request.body() = std::string(static_cast<std::size_t>(i) * 5000, static_cast<char>('a' + i));
    request.prepare_payload();
    http::write(stream, request);
    http::response<http::string_body> response;
    http::read(stream, buffer, response);
    EXPECT_EQ(response.result(), http::status::ok);
    EXPECT_EQ(response.body(), "/" + std::to_string(i) + ' ' + request.body());
  }
}

TEST_P(AsioStreamTest, BeastSpeaksHttpOverIt) {
  Both(
      [](TcpStream& tcp) {
        AsioStream stream(&tcp);
        stream.expires_after(30s);
        ServeHttp(stream);
      },
      [](TcpStream& tcp) {
        AsioStream stream(&tcp);
        stream.expires_after(30s);
        AskHttp(stream, 10);
        EXPECT_FALSE(tcp.ShutdownWrite());
      });
}

TEST_P(AsioStreamTest, BeastSpeaksWebSocketOverIt) {
  Both(
      [](TcpStream& tcp) {
        WebSocket socket{AsioStream(&tcp)};
        socket.accept();
        beast::flat_buffer buffer;
        boost::system::error_code error;
        for (;;) {
          socket.read(buffer, error);
          if (error == beast::websocket::error::closed) return;
          ASSERT_FALSE(error) << error.message();
          socket.write(buffer.data());
          buffer.clear();
        }
      },
      [](TcpStream& tcp) {
        WebSocket socket{AsioStream(&tcp)};
        socket.handshake("weft.test", "/");
        for (const std::size_t size : {1, 100, 100'000}) {
          const std::string message(size, 'm');
          socket.write(asio::buffer(message));
          beast::flat_buffer buffer;
          socket.read(buffer);
          EXPECT_EQ(beast::buffers_to_string(buffer.data()), message);
        }
        socket.close(beast::websocket::close_code::normal);
      });
}

TEST_P(AsioStreamTest, TlsRunsOverItAndHttpOverThat) {
  asio::ssl::context server_context = ServerContext();
  asio::ssl::context client_context(asio::ssl::context::tls_client);
  client_context.set_verify_mode(asio::ssl::verify_none);
  Both(
      [&](TcpStream& tcp) {
        asio::ssl::stream<AsioStream> stream(AsioStream(&tcp), server_context);
        stream.next_layer().expires_after(30s);
        boost::system::error_code error;
        stream.handshake(asio::ssl::stream_base::server, error);
        ASSERT_FALSE(error) << error.message();
        for (std::size_t size = 1; size < 50'000; size += 5'000) {
          std::string got(size, '\0');
          asio::read(stream, asio::buffer(got), error);
          ASSERT_FALSE(error) << error.message();
          asio::write(stream, asio::buffer(got), error);
          ASSERT_FALSE(error) << error.message();
        }
        ServeHttp(stream);
        stream.shutdown(error);
        EXPECT_FALSE(error) << error.message();
      },
      [&](TcpStream& tcp) {
        asio::ssl::stream<AsioStream> stream(AsioStream(&tcp), client_context);
        stream.next_layer().expires_after(30s);
        boost::system::error_code error;
        stream.handshake(asio::ssl::stream_base::client, error);
        ASSERT_FALSE(error) << error.message();
        for (std::size_t size = 1; size < 50'000; size += 5'000) {
          const std::string sent(size, static_cast<char>('a' + size / 5'000));
          std::string got(size, '\0');
          asio::write(stream, asio::buffer(sent));
          asio::read(stream, asio::buffer(got));
          EXPECT_EQ(got, sent);
        }
        AskHttp(stream, 4);
        stream.shutdown(error);
        EXPECT_FALSE(error) << error.message();
      });
}

TEST_P(AsioStreamTest, ATlsPeerThatIsGoneIsAnError) {
  asio::ssl::context server_context = ServerContext();
  Both([](TcpStream& tcp) { tcp.Close(); },
       [&](TcpStream& tcp) {
         asio::ssl::stream<AsioStream> stream(AsioStream(&tcp), server_context);
         boost::system::error_code error;
         stream.handshake(asio::ssl::stream_base::server, error);
         EXPECT_TRUE(error);
       });
}

TEST_P(AsioStreamTest, TheEndIsEof) {
  Both(
      [](TcpStream& tcp) {
        AsioStream stream(&tcp);
        std::string text;
        boost::system::error_code error;
        const std::size_t bytes = asio::read(stream, asio::dynamic_buffer(text), error);
        EXPECT_EQ(error, asio::error::eof);
        EXPECT_EQ(bytes, 4u);
        EXPECT_EQ(text, "text");
        char byte;
        EXPECT_THROW((void)stream.read_some(asio::buffer(&byte, 1)), boost::system::system_error);
      },
      [](TcpStream& tcp) {
        AsioStream stream(&tcp);
        EXPECT_EQ(stream.write_some(asio::buffer("text", 4)), 4u);
        EXPECT_FALSE(tcp.ShutdownWrite());
      });
}

TEST_P(AsioStreamTest, AnExpiredOperationIsTimedOut) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    AsioStream stream(&pair.server);
    boost::system::error_code error;
    char byte;
    const auto begin = Steady::now();
    stream.expires_after(5ms);
    EXPECT_EQ(stream.read_some(asio::buffer(&byte, 1), error), 0u);
    EXPECT_EQ(error, asio::error::timed_out);
    EXPECT_GE(Steady::now() - begin, 5ms);
    stream.expires_at(30s);
    EXPECT_TRUE(pair.client.WriteAll("x").ok());
    EXPECT_EQ(stream.read_some(asio::buffer(&byte, 1), error), 1u);
    EXPECT_FALSE(error);
    stream.expires_never();
    EXPECT_TRUE(pair.client.WriteAll("x").ok());
    EXPECT_EQ(stream.read_some(asio::buffer(&byte, 1), error), 1u);
    EXPECT_FALSE(error);
  });
}

TEST_P(AsioStreamTest, AClosedStreamIsOperationAborted) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    AsioStream stream(&pair.server);
    pair.server.Close();
    boost::system::error_code error;
    char byte = 'x';
    EXPECT_EQ(stream.read_some(asio::buffer(&byte, 1), error), 0u);
    EXPECT_EQ(error, asio::error::operation_aborted);
    EXPECT_EQ(stream.write_some(asio::buffer(&byte, 1), error), 0u);
    EXPECT_EQ(error, asio::error::operation_aborted);
    EXPECT_THROW((void)stream.write_some(asio::buffer(&byte, 1)), boost::system::system_error);
  });
}

// More buffers than go into one system call, and empty ones among them.
TEST_P(AsioStreamTest, ManyBuffersAreWrittenAndReadInOrder) {
  std::string sent(50'000, '\0');
  std::iota(sent.begin(), sent.end(), '\0');
  Both(
      [&](TcpStream& tcp) {
        AsioStream stream(&tcp);
        std::string got(sent.size(), '\0');
        std::vector<asio::mutable_buffer> buffers;
        for (std::size_t at = 0; at < got.size(); at += 500) {
          buffers.emplace_back(got.data() + at, 500);
          buffers.emplace_back();
        }
        EXPECT_EQ(asio::read(stream, buffers), got.size());
        EXPECT_EQ(got, sent);
      },
      [&](TcpStream& tcp) {
        AsioStream stream(&tcp);
        std::vector<asio::const_buffer> buffers;
        for (std::size_t at = 0; at < sent.size(); at += 1000) {
          buffers.emplace_back();
          buffers.emplace_back(sent.data() + at, 1000);
        }
        EXPECT_EQ(asio::write(stream, buffers), sent.size());
      });
}

TEST_P(AsioStreamTest, NothingIsReadOrWrittenAtOnce) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    AsioStream stream(&pair.server);
    boost::system::error_code error = asio::error::eof;
    EXPECT_EQ(stream.read_some(asio::mutable_buffer(), error), 0u);
    EXPECT_FALSE(error);
    EXPECT_EQ(stream.write_some(asio::const_buffer(), error), 0u);
    EXPECT_FALSE(error);
  });
}

}  // namespace
}  // namespace weft::io
