// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/tls_stream.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <any>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/io/tcp_server.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/base/temporary_folder.h"
#include "weft/tests/interop/tls_certificates.h"
#include "weft/tests/io/io_fixture.h"

#include "testing/test_bytes.h"

#if !WEFT_TSAN && !WEFT_ASAN  // Which bring their own.
// The buffers of streams, when nothing else is under way.
std::atomic<int> large_objects{0};
std::atomic<bool> no_large_objects{false};  // They are refused.

WEFT_NOINLINE void* operator new(std::size_t size) {
  void* const made = size > 10'000 && no_large_objects ? nullptr : std::malloc(size);
  if (made == nullptr) throw std::bad_alloc();
  if (::malloc_usable_size(made) > 10'000) ++large_objects;
  return made;
}
WEFT_NOINLINE void operator delete(void* made) noexcept {
  if (::malloc_usable_size(made) > 10'000) --large_objects;
  std::free(made);
}
WEFT_NOINLINE void operator delete(void* made, std::size_t) noexcept { ::operator delete(made); }
WEFT_NOINLINE void* operator new[](std::size_t size) { return ::operator new(size); }
WEFT_NOINLINE void operator delete[](void* made) noexcept { ::operator delete(made); }
WEFT_NOINLINE void operator delete[](void* made, std::size_t) noexcept { ::operator delete(made); }
#endif

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::IoResult;
using io::Pair;
using io::Soon;
using io::TcpStream;
using Steady = std::chrono::steady_clock;

const char* const kName = "weft.example";

const TestAuthority& Authority() {
  static const TestAuthority authority;
  return authority;
}

TlsContext MakeServer(TlsServerOptions options = {}) {
  if (options.certificate_chain_pem.empty()) {
    PemPair pair = Authority().Issue(std::string("DNS:") + kName + ",IP:127.0.0.1");
    options.certificate_chain_pem = std::move(pair.certificate);
    options.private_key_pem = std::move(pair.key);
  }
  std::string why;
  auto made = TlsContext::ForServer(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

TlsContext MakeClient(TlsClientOptions options = {}) {
  options.trust_pem = Authority().certificate();
  std::string why;
  auto made = TlsContext::ForClient(options, &why);
  EXPECT_TRUE(made.has_value()) << why;
  return *made;
}

// By the library's own search: a loop of ours takes a second for ten million in a sanitizer build.
std::size_t CountOf(char c, const std::string& bytes) {
  std::size_t count = 0;
  for (std::size_t at = bytes.find(c); at != std::string::npos;) {
    const std::size_t end = std::min(bytes.find_first_not_of(c, at), bytes.size());
    count += end - at;
    at = bytes.find(c, end);
  }
  return count;
}

class TlsStreamTest : public io::IoTest {
 protected:
  // Both ends, with handshakes made at the same time.
  struct Ends {
    explicit Ends(const TlsContext& server_context, const TlsContext& client_context, std::string_view name = kName)
        : client(pair.client, client_context, name), server(pair.server, server_context) {
      Fiber other([&] { server_error = server.Handshake(Soon()); });
      client_error = client.Handshake(Soon());
      other.Join();
    }
    bool ok() const { return !client_error && !server_error; }

    Pair pair = io::ConnectedPair();
    TlsStream client;
    TlsStream server;
    std::error_code client_error;
    std::error_code server_error;
  };
};
WEFT_INSTANTIATE_IO_SHAPES(TlsStreamTest);

TEST_P(TlsStreamTest, EndsExchangeBytesAndTellEachOtherTheEnd) {
  InFiberAndInThread([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok()) << ends.client.error_text() << ", " << ends.server.error_text();
    EXPECT_EQ(ends.client.version(), "TLSv1.3");
    ASSERT_TRUE(ends.client.WriteAll("hello", Soon()).ok());
    char room[16];
    IoResult got = ends.server.ReadAll(room, 2, Soon());  // OpenSSL keeps the rest.
    got = ends.server.ReadAll(room + got.bytes, 3, Soon());
    EXPECT_EQ(std::string_view(room, 5), "hello") << got.error.message();
    EXPECT_FALSE(ends.client.ShutdownWrite(Soon()));
    for (int i = 0; i < 2; ++i) {
      got = ends.server.ReadSome(room, Soon());
      EXPECT_TRUE(got.ok() && got.bytes == 0) << got.error.message();
      EXPECT_FALSE(ends.server.WaitReadable(Soon()));  // The end can be read again.
    }
    // The other way is still open.
    std::string a = "good", b = "bye";
    iovec parts[] = {{a.data(), a.size()}, {nullptr, 0}, {b.data(), b.size()}};
    EXPECT_EQ(ends.server.WriteAll(parts, 3, Soon()).bytes, 7u);
    got = ends.client.ReadAll(room, 7, Soon());
    EXPECT_EQ(std::string_view(room, got.bytes), "goodbye");
    EXPECT_EQ(ends.client.WriteAll("x", Soon()).error, std::errc::broken_pipe);
    EXPECT_FALSE(ends.server.ShutdownWrite(Soon()));
    EXPECT_FALSE(ends.client.Shutdown(Soon()));
  });
}

TEST_P(TlsStreamTest, AnEndWithoutCloseNotifyIsATruncation) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    ASSERT_TRUE(ends.client.WriteAll("half", Soon()).ok());
    EXPECT_FALSE(ends.pair.client.ShutdownWrite());
    char room[16];
    IoResult got = ends.server.ReadAll(room, sizeof(room), Soon());
    EXPECT_EQ(got.bytes, 4u);
    EXPECT_EQ(got.error, TlsErrc::kTruncated);
    EXPECT_NE(ends.server.error_text().find("close_notify"), std::string::npos);
    got = ends.server.ReadSome(room, Soon());  // And again.
    EXPECT_EQ(got.error, TlsErrc::kTruncated);
  });
}

TEST_P(TlsStreamTest, LargeTransfersGoBothWaysAtOnce) {
  const std::size_t size = static_cast<std::size_t>(io::Scaled(8)) * 300'000;
  InFiberAndInThread([&] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const std::string up = testing::TestBytes(size, 1), down = testing::TestBytes(size, 2);
    std::string got_up(size, '\0'), got_down(size, '\0');
    {
      std::vector<io::Actor> actors;
      actors.emplace_back(true, [&] { EXPECT_EQ(ends.client.WriteAll(up, Soon()).bytes, size); });
      actors.emplace_back(true, [&] { EXPECT_EQ(ends.server.WriteAll(down, Soon()).bytes, size); });
      actors.emplace_back(true, [&] { EXPECT_EQ(ends.server.ReadAll(got_up.data(), size, Soon()).bytes, size); });
      EXPECT_EQ(ends.client.ReadAll(got_down.data(), size, Soon()).bytes, size);
    }
    EXPECT_TRUE(got_up == up);
    EXPECT_TRUE(got_down == down);
  });
}

// A key update is answered by the reader, between the records of the writer.
TEST_P(TlsStreamTest, AReaderAnswersKeyUpdatesWhileAnotherFiberWrites) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const std::size_t size = 300'000;
    const std::string text = testing::TestBytes(size, 3);
    std::string got(size, '\0'), echoed(size, '\0');
    Fiber writes_down([&] { EXPECT_EQ(ends.server.WriteAll(text, Soon()).bytes, size); });
    Fiber reads_up([&] { EXPECT_EQ(ends.server.ReadAll(got.data(), size, Soon()).bytes, size); });
    Fiber reads_down([&] { EXPECT_EQ(ends.client.ReadAll(echoed.data(), size, Soon()).bytes, size); });
    for (std::size_t at = 0; at < size; at += 3000) {
      ends.client.RequestKeyUpdate();
      ASSERT_TRUE(ends.client.WriteAll(text.data() + at, 3000, Soon()).ok());
    }
    writes_down.Join();
    reads_up.Join();
    reads_down.Join();
    EXPECT_TRUE(got == text);
    EXPECT_TRUE(echoed == text);
  });
}

TEST_P(TlsStreamTest, AnApplicationProtocolIsAgreedOn) {
  InFiber([] {
    const TlsContext server = MakeServer({.alpn = {"h2", "http/1.1"}});
    Ends both(server, MakeClient({.alpn = {"http/1.1", "h2"}}));
    EXPECT_EQ(both.client.alpn(), "h2");  // The server chooses.
    EXPECT_EQ(both.server.alpn(), "h2");
    Ends silent(server, MakeClient());
    EXPECT_TRUE(silent.ok());
    EXPECT_EQ(silent.server.alpn(), "");
    Ends none(server, MakeClient({.alpn = {"spdy"}}));
    EXPECT_EQ(none.server_error, TlsErrc::kHandshakeFailed);
    EXPECT_EQ(none.client_error, TlsErrc::kHandshakeFailed);
    EXPECT_NE(none.client.error_text().find("no application protocol"), std::string::npos) << none.client.error_text();
  });
}

// TX1. If another fiber read the input, the waiter would sleep on.
TEST_P(TlsStreamTest, WhoWaitsForInputIsItsOnlyReader) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok()) << ends.client.error_text();
    Fiber waits([&] { EXPECT_FALSE(ends.server.WaitReadable(Soon())); });
    for (int i = 0; i < 100; ++i) FiberYield();
    EXPECT_TRUE(ends.client.WriteAll("x", Soon()).ok());
    char room[1];
    if (GetParam().workers == 1) {  // The waiter has begun, and nobody has told it yet.
      EXPECT_EQ(ends.server.ReadSome(room, std::chrono::milliseconds(0)).error, std::errc::timed_out);
    }
    EXPECT_EQ(ends.server.ReadSome(room, Soon()).bytes, 1u);
    EXPECT_TRUE(ends.client.WriteAll("x", Soon()).ok());  // For a waiter that has begun late.
    waits.Join();
  });
}

#if !WEFT_TSAN && !WEFT_ASAN
TEST_P(TlsStreamTest, AReadWithoutMemorySaysSo) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok()) << ends.client.error_text();
    EXPECT_EQ(ends.server.WaitReadable(std::chrono::milliseconds(0)), std::errc::timed_out);  // Gives the room back.
    char room[1];
    no_large_objects = true;
    const std::error_code error = ends.server.ReadSome(room, Soon()).error;
    no_large_objects = false;
    EXPECT_EQ(error, std::errc::not_enough_memory);
    EXPECT_TRUE(ends.client.WriteAll("x", Soon()).ok());
    EXPECT_EQ(ends.server.ReadSome(room, Soon()).bytes, 1u);
  });
}
#endif

TEST_P(TlsStreamTest, ASessionIsResumed) {
  InFiber([] {
    const TlsContext server = MakeServer(), client = MakeClient();
    for (int round = 0; round < 4; ++round) {
      Ends ends(server, client);
      ASSERT_TRUE(ends.ok()) << ends.client.error_text();
      EXPECT_EQ(ends.client.resumed(), round != 0);
      EXPECT_EQ(ends.server.resumed(), round != 0);
      ASSERT_TRUE(ends.server.WriteAll("x", Soon()).ok());  // The tickets come before it.
      char room[1];
      ASSERT_EQ(ends.client.ReadSome(room, Soon()).bytes, 1u);
      EXPECT_GE(client.session_count(), 1u);
    }
    Ends by_address(server, client, "127.0.0.1");  // Another name: another session.
    ASSERT_TRUE(by_address.ok()) << by_address.client.error_text();
    EXPECT_FALSE(by_address.client.resumed());
    Ends without(server, MakeClient({.resumption = false}));
    EXPECT_TRUE(without.ok());
    EXPECT_FALSE(without.client.resumed());
    const TlsContext gives_none = MakeServer({.resumption = false}), fresh = MakeClient();
    Ends refused(gives_none, fresh);
    ASSERT_TRUE(refused.server.WriteAll("x", Soon()).ok());
    char room[1];
    ASSERT_EQ(refused.client.ReadSome(room, Soon()).bytes, 1u);
    EXPECT_EQ(fresh.session_count(), 0u);
  });
}

TEST_P(TlsStreamTest, AKeptSessionIsOneOfManyNames) {
  InFiber([] {
    const TlsContext server = MakeServer(), client = MakeClient({.verify = false});
    for (int i = 0; i < 5; ++i) {
      Ends ends(server, client, "host" + std::to_string(i));
      ASSERT_TRUE(ends.ok());
      EXPECT_FALSE(ends.client.resumed());
      ASSERT_TRUE(ends.server.WriteAll("x", Soon()).ok());
      char room[1];
      ASSERT_EQ(ends.client.ReadSome(room, Soon()).bytes, 1u);
    }
    EXPECT_EQ(client.session_count(), 10u);  // Two tickets each.
    const Ends again(server, client, "host0"), other(server, client, "host5");
    EXPECT_TRUE(again.ok() && again.client.resumed());
    EXPECT_TRUE(other.ok() && !other.client.resumed());
  });
}

TEST_P(TlsStreamTest, ACertificateThatIsNotGoodIsRejected) {
  InFiber([] {
    Ends other_name(MakeServer(), MakeClient(), "elsewhere.example");
    EXPECT_EQ(other_name.client_error, TlsErrc::kCertificateRejected);
    EXPECT_NE(other_name.client.error_text().find("hostname mismatch"), std::string::npos)
        << other_name.client.error_text();
    EXPECT_TRUE(other_name.server_error);

    PemPair old = Authority().Issue("DNS:weft.example", -60s);
    Ends expired(MakeServer({.certificate_chain_pem = old.certificate, .private_key_pem = old.key}), MakeClient());
    EXPECT_EQ(expired.client_error, TlsErrc::kCertificateRejected);
    EXPECT_NE(expired.client.error_text().find("has expired"), std::string::npos) << expired.client.error_text();

    const TestAuthority unknown;
    PemPair foreign = unknown.Issue("DNS:weft.example");
    const TlsContext impostor =
        MakeServer({.certificate_chain_pem = foreign.certificate, .private_key_pem = foreign.key});
    Ends not_trusted(impostor, MakeClient());
    EXPECT_EQ(not_trusted.client_error, TlsErrc::kCertificateRejected);
    Ends unchecked(impostor, MakeClient({.verify = false}));
    EXPECT_TRUE(unchecked.ok());
    // Afterwards it is closed to all.
    EXPECT_EQ(not_trusted.client.WriteAll("x", Soon()).error, std::errc::broken_pipe);
    char room[1];
    EXPECT_EQ(not_trusted.client.ReadSome(room, Soon()).error, TlsErrc::kCertificateRejected);
  });
}

TEST_P(TlsStreamTest, AServerMayAskForTheClientsCertificate) {
  const TemporaryFolder folder;
  const PemPair own = Authority().Issue("DNS:client.example");
  const std::string certificate = folder.Write("client.pem", own.certificate);
  const std::string key = folder.Write("client_key.pem", own.key);
  const std::string authority = folder.Write("authority.pem", Authority().certificate());
  InFiber([&] {
    const TlsContext server = MakeServer({.client_trust_file = authority});
    Ends with(server, MakeClient({.certificate_chain_file = certificate, .private_key_file = key}));
    EXPECT_TRUE(with.ok()) << with.server.error_text();
    Ends without(server, MakeClient());
    EXPECT_EQ(without.server_error, TlsErrc::kHandshakeFailed);
    char room[1];
    // The client learns it from the alert.
    EXPECT_EQ(without.client.ReadSome(room, Soon()).error, TlsErrc::kProtocolError);
  });
}

TEST_P(TlsStreamTest, AClientThatChecksNeedsAName) {
  InFiber([] {
    Pair pair = io::ConnectedPair();
    TlsStream tls(pair.client, MakeClient());
    EXPECT_EQ(tls.Handshake(Soon()), std::errc::invalid_argument);
    EXPECT_NE(tls.error_text().find("name is empty"), std::string::npos);
    TlsStream zero(pair.client, MakeClient(), std::string_view("weft.example\0.evil", 18));
    EXPECT_EQ(zero.Handshake(Soon()), std::errc::invalid_argument);
  });
}

TEST_P(TlsStreamTest, AHandshakeHasADeadlineAndCanBeCancelled) {
  InFiber([] {
    Pair pair = io::ConnectedPair();
    TlsStream tls(pair.server, MakeServer());
    char room[1];
    EXPECT_EQ(tls.ReadSome(room, Soon()).error, std::errc::not_connected);
    EXPECT_EQ(tls.WriteAll("x", Soon()).error, std::errc::not_connected);
    const auto began = Steady::now();
    EXPECT_EQ(tls.Handshake(30ms), std::errc::timed_out);
    EXPECT_GE(Steady::now() - began, 30ms);
    CancelScope scope;
    scope.Cancel();
    std::error_code error;
    EXPECT_TRUE(scope.Run([&] { error = tls.Handshake(Soon()); }));
    EXPECT_EQ(error, std::errc::operation_canceled);
    // It goes on where it was.
    Fiber other([&] {
      TlsStream client(pair.client, MakeClient(), kName);
      EXPECT_FALSE(client.Handshake(Soon()));
    });
    EXPECT_FALSE(tls.Handshake(Soon()));
    other.Join();
  });
}

TEST_P(TlsStreamTest, APeerThatDoesNotSpeakTlsIsTurnedAway) {
  InFiber([] {
    Pair pair = io::ConnectedPair();
    ASSERT_TRUE(pair.client.WriteAll("GET / HTTP/1.1\r\n\r\n", Soon()).ok());
    TlsStream tls(pair.server, MakeServer());
    EXPECT_EQ(tls.Handshake(Soon()), TlsErrc::kHandshakeFailed);
    EXPECT_NE(tls.error_text().find("http request"), std::string::npos) << tls.error_text();
    Pair gone = io::ConnectedPair();
    EXPECT_FALSE(gone.client.ShutdownWrite());
    TlsStream cut(gone.server, MakeServer());
    EXPECT_EQ(cut.Handshake(Soon()), TlsErrc::kTruncated);
  });
}

TEST_P(TlsStreamTest, ARecordThatWasChangedIsAnError) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const char forged[] = "\x17\x03\x03\x00\x20nothing that could be deciphered";
    ASSERT_TRUE(ends.pair.client.WriteAll(forged, sizeof(forged) - 1, Soon()).ok());
    char room[16];
    EXPECT_EQ(ends.server.ReadSome(room, Soon()).error, TlsErrc::kProtocolError);
    EXPECT_NE(ends.server.error_text(), "");
    EXPECT_EQ(ends.server.WriteAll("x", Soon()).error, std::errc::broken_pipe);
    EXPECT_EQ(ends.client.ReadSome(room, Soon()).error, TlsErrc::kProtocolError);  // The alert.
  });
}

// TX3: the reader finds a writer at work, and leaves the alert to it.
TEST_P(TlsStreamTest, AWriterSendsTheAlertThatAReaderHasLeft) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const std::string much(TlsStream::kMaxPiece, 'f');
    while (ends.server.WriteSome(much.data(), much.size(), 10ms).ok()) {
    }
    FiberLatch writes(1);
    Fiber writer([&] {
      writes.CountDown();
      EXPECT_EQ(ends.server.WriteAll(much, Soon()).error, std::errc::broken_pipe);
    });
    writes.Wait();
    for (int i = 0; i < 100; ++i) FiberYield();  // It waits by now; if not, the reader sends the alert itself.
    const char forged[] = "\x17\x03\x03\x00\x20nothing that could be deciphered";
    ASSERT_TRUE(ends.pair.client.WriteAll(forged, sizeof(forged) - 1, Soon()).ok());
    char room[4096];
    EXPECT_EQ(ends.server.ReadSome(room, Soon()).error, TlsErrc::kProtocolError);
    IoResult got;
    do {
      got = ends.client.ReadSome(room, 5s);
    } while (got.ok() && got.bytes != 0);
    EXPECT_EQ(got.error, TlsErrc::kProtocolError) << got.error.message();
    writer.Join();
  });
}

TEST_P(TlsStreamTest, AReadIsCancelledAndTheStreamStaysGood) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    CancelScope scope;
    FiberLatch reads(1);
    IoResult got;
    Fiber reader([&] {
      scope.Run([&] {
        char room[4];
        reads.CountDown();
        got = ends.server.ReadSome(room, Soon());
      });
    });
    reads.Wait();
    scope.Cancel();
    reader.Join();
    EXPECT_EQ(got.error, std::errc::operation_canceled);
    ASSERT_TRUE(ends.client.WriteAll("more", Soon()).ok());
    char room[4];
    EXPECT_EQ(ends.server.ReadAll(room, Soon()).bytes, 4u);
    EXPECT_EQ(ends.server.ReadSome(room, 10ms).error, std::errc::timed_out);
  });
}

// TX2: what a write has taken over and could not send goes out first.
TEST_P(TlsStreamTest, AWriteThatRunsIntoItsDeadlineLosesNothing) {
  InFiberAndInThread([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const int small = 8192;
    ::setsockopt(ends.pair.client.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    const std::size_t size = 5'000'000;  // More than the buffers of both sockets.
    const std::string text = testing::TestBytes(size, 4);
    const IoResult late = ends.client.WriteAll(text, 30ms);
    ASSERT_EQ(late.error, std::errc::timed_out);
    ASSERT_LT(late.bytes, size);
    std::string got(size, '\0');
    Fiber reader([&] { EXPECT_EQ(ends.server.ReadAll(got.data(), size, Soon()).bytes, size); });
    EXPECT_EQ(ends.client.WriteAll(text.data() + late.bytes, size - late.bytes, Soon()).bytes, size - late.bytes);
    reader.Join();
    EXPECT_TRUE(got == text);
  });
}

// It read on for as long as the peer sent.
TEST_P(TlsStreamTest, AShutdownEndsAtItsDeadlineThoughThePeerSendsOn) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const std::string much(100'000, 'x');
    std::atomic<bool> over{false};
    Fiber sender([&] {
      while (!over && ends.server.WriteAll(much, Soon()).ok()) {
      }
    });
    EXPECT_EQ(ends.client.Shutdown(50ms), std::errc::timed_out);
    over = true;
    static_cast<void>(ends.pair.server.Shutdown());
    sender.Join();
  });
}

TEST_P(TlsStreamTest, TwoThatWriteAtOnceSendAllOfBoth) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    // The transport is full, so both come while bytes are unsent. With one worker both wait before the peer reads.
    const std::string much(TlsStream::kMaxPiece, 'f');
    std::size_t filled = 0;
    for (IoResult put; put.ok(); filled += put.bytes) put = ends.client.WriteSome(much.data(), much.size(), 10ms);
    ASSERT_GT(ends.client.unsent_bytes(), 0U);
    constexpr std::size_t kSize = 400'000;
    FiberScope scope;
    FiberLatch begun(2);
    for (const char c : {'a', 'b'}) {
      ASSERT_TRUE(scope.Spawn([&ends, &begun, c] {
        const std::string text(kSize, c);
        begun.CountDown();
        EXPECT_TRUE(ends.client.WriteAll(text, Soon()).ok());
      }));
    }
    begun.Wait();
    std::string got(filled + 2 * kSize, '\0');
    EXPECT_EQ(ends.server.ReadAll(got.data(), got.size(), Soon()).bytes, got.size());
    scope.Wait();
    EXPECT_EQ(CountOf('a', got), kSize);
    EXPECT_EQ(CountOf('b', got), kSize);
  });
}

TEST_P(TlsStreamTest, AnEndMayFollowTheWishForNewKeys) {
  InFiber([] {
    for (const bool reads : {false, true}) {
      Ends ends(MakeServer(), MakeClient());
      ASSERT_TRUE(ends.ok());
      char byte;
      ASSERT_TRUE(ends.client.RequestKeyUpdate());
      if (reads) {
        EXPECT_EQ(ends.client.ReadSome(&byte, 1, 1ms).error, std::errc::timed_out);
      }
      EXPECT_FALSE(ends.client.ShutdownWrite(Soon())) << ends.client.error_text();
      const IoResult end = ends.server.ReadSome(&byte, 1, Soon());
      EXPECT_TRUE(end.ok() && end.bytes == 0) << end.error.message();
    }
  });
}

TEST_P(TlsStreamTest, AnIdleReaderSendsTheWishForNewKeys) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    ASSERT_TRUE(ends.client.RequestKeyUpdate());
    FiberScope scope;
    ASSERT_TRUE(scope.Spawn([&] {
      char byte;
      EXPECT_EQ(ends.client.ReadSome(&byte, 1, Soon()).bytes, 1u);
    }));
    // Nothing else of the client's is on its way.
    EXPECT_FALSE(ends.pair.server.WaitReadable(Soon()));
    EXPECT_TRUE(ends.server.WriteAll("x", Soon()).ok());
    scope.Wait();
  });
}

// One of them met the record; the other one went on to wait for bytes of a stream that had failed.
TEST_P(TlsStreamTest, ARecordThatIsNoneEndsBothReaders) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    FiberScope scope;
    FiberLatch begun(2);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(scope.Spawn([&] {
        begun.CountDown();
        char byte;
        EXPECT_EQ(ends.server.ReadSome(&byte, 1, Soon()).error, TlsErrc::kProtocolError);
      }));
    }
    begun.Wait();
    const std::string record = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
    ASSERT_TRUE(ends.pair.client.WriteAll(record.data(), record.size(), Soon()).ok());
    scope.Wait();
    EXPECT_EQ(ends.server.error_text().find("no reason"), std::string::npos);  // The first one's has not gone.
  });
}

// A peer that asks for key updates and never reads: many get one answer.
TEST_P(TlsStreamTest, AnswersToAPeerThatDoesNotReadTakeNoMemory) {
  InFiber([] {
    Ends ends(MakeServer(), MakeClient());
    ASSERT_TRUE(ends.ok());
    const int small = 4096;
    ::setsockopt(ends.pair.server.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    const std::string much(TlsStream::kMaxPiece, 'f');
    while (ends.server.WriteSome(much.data(), much.size(), 10ms).ok()) {
    }
    const std::size_t before = ends.server.unsent_bytes();
    constexpr std::size_t kUpdates = 1000;  // An answer has 27 bytes.
    for (std::size_t i = 0; i < kUpdates; ++i) {
      ASSERT_TRUE(ends.client.RequestKeyUpdate());
      ASSERT_TRUE(ends.client.WriteAll("x", Soon()).ok());
    }
    ASSERT_FALSE(ends.client.ShutdownWrite(Soon()));
    IoResult got;
    char room[1024];
    std::size_t all = 0;
    do {
      got = ends.server.ReadSome(room, Soon());
      all += got.bytes;
    } while (got.bytes != 0);
    EXPECT_TRUE(got.ok()) << got.error.message();
    EXPECT_EQ(all, kUpdates);
    EXPECT_LT(ends.server.unsent_bytes(), before + 1000);
  });
}

TEST_P(TlsStreamTest, ADrainEndsAnIdleReaderOnly) {
  io::TcpListener listener;
  ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
  const TlsContext server_context = MakeServer();
  std::atomic<int> drained{0};
  FiberLatch idle(1);
  io::TcpServer server(std::move(listener), [&](io::TcpConnection& connection) {
    TlsStream tls(connection, server_context);
    ASSERT_FALSE(tls.Handshake(Soon()));
    char room[64];
    for (;;) {
      const IoResult got = tls.ReadRequest(room, sizeof(room), Soon());
      if (got.bytes == 0) {
        if (connection.draining() && got.error == std::errc::operation_canceled) ++drained;
        break;
      }
      ASSERT_TRUE(tls.WriteAll(room, got.bytes, Soon()).ok());
      idle.CountDown();
      EXPECT_TRUE(tls.AwaitRequest(Soon()) == std::errc() || connection.draining());
    }
    EXPECT_FALSE(tls.ShutdownWrite(Soon()));
  });
  ASSERT_TRUE(server.Start());
  Fiber([&] {
    TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    TlsStream tls(stream, MakeClient(), "127.0.0.1");
    ASSERT_FALSE(tls.Handshake(Soon())) << tls.error_text();
    char room[64];
    ASSERT_TRUE(tls.WriteAll("ping", Soon()).ok());
    ASSERT_EQ(tls.ReadAll(room, 4, Soon()).bytes, 4u);
    idle.Wait();
    Fiber stop([&] { server.Stop(Soon()); });
    const IoResult end = tls.ReadSome(room, Soon());
    EXPECT_TRUE(end.ok() && end.bytes == 0) << end.error.message();
    stop.Join();
  }).Join();
  EXPECT_EQ(drained, 1);
}

TEST_P(TlsStreamTest, ADrainEndsAHandshakeThatHasNotBegun) {
  io::TcpListener listener;
  ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
  const TlsContext server_context = MakeServer();
  std::error_code error;
  io::TcpServer server(std::move(listener),
                       [&](io::TcpConnection& connection) {
                         TlsStream tls(connection, server_context);
                         error = tls.Handshake(Soon());
                       },
                       {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  Fiber([&] {
    TcpStream silent;
    ASSERT_FALSE(silent.Connect(server.local_address(), Soon()));
    EXPECT_TRUE(io::Reaches([&] { return server.counts().open == 1; }));
    server.Stop();
    EXPECT_EQ(error, std::errc::operation_canceled);
  }).Join();
}

// What one end sends to the other passes through here.
struct Relay {
  // Until the sender ends, or `limit` bytes have passed.
  static void Pass(TcpStream& from, TcpStream& to, std::size_t limit = SIZE_MAX) {
    char room[4096];
    while (limit != 0) {
      const IoResult got = from.ReadSome(room, std::min(limit, sizeof(room)), Soon());
      if (got.bytes == 0 || !to.WriteAll(room, got.bytes, Soon()).ok()) break;
      limit -= got.bytes;
    }
  }
};

// The head's five bytes alone leave no mark in OpenSSL.
// `awaits`: the handler's read ends at its deadline, and it waits.
void ExpectARecordInTwoPartsIsReadInADrain(bool awaits) {
  io::TcpListener listener;
  ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
  const TlsContext server_context = MakeServer();
  std::atomic<int> fd{-1};
  std::atomic<int> waits{0};
  io::TcpServer server(std::move(listener),
                       [&](io::TcpConnection& connection) {
                         TlsStream tls(connection, server_context);
                         ASSERT_FALSE(tls.Handshake(Soon()));
                         fd = connection.stream().fd();
                         for (char room[64];;) {
                           const IoResult got = tls.ReadRequest(room, sizeof(room), awaits ? Deadline(20ms) : Soon());
                           if (awaits && got.error == std::errc::timed_out) {
                             ++waits;
                             if (tls.AwaitRequest(Soon())) break;
                             continue;
                           }
                           if (got.bytes == 0 || !tls.WriteAll(room, got.bytes, Soon()).ok()) break;
                         }
                       },
                       {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  Fiber([&] {
    TcpStream outer;
    ASSERT_FALSE(outer.Connect(server.local_address(), Soon()));
    Pair inner = io::ConnectedPair();
    TlsStream tls(inner.client, MakeClient(), "127.0.0.1");
    Fiber back([&] {
      Relay::Pass(outer, inner.server);
      EXPECT_FALSE(inner.server.ShutdownWrite());
    });
    std::optional<CancelScope> scope(std::in_place);
    Fiber there([&] { static_cast<void>(scope->Run([&] { Relay::Pass(inner.server, outer); })); });
    ASSERT_FALSE(tls.Handshake(Soon())) << tls.error_text();
    char room[16];
    ASSERT_TRUE(tls.WriteAll("ping", Soon()).ok());
    ASSERT_EQ(tls.ReadAll(room, 4, Soon()).bytes, 4u);
    scope->Cancel();
    there.Join();
    ASSERT_TRUE(tls.WriteAll("pong", Soon()).ok());
    const int before = waits;
    Relay::Pass(inner.server, outer, 5);
    EXPECT_TRUE(io::Reaches([&] {
      int unsent = -1, unread = -1;
      return ::ioctl(outer.fd(), SIOCOUTQ, &unsent) == 0 && unsent == 0 && ::ioctl(fd, FIONREAD, &unread) == 0 &&
             unread == 0;
    }));
    EXPECT_TRUE(io::Reaches([&] { return !awaits || waits > before; }));
    Fiber stop([&] { server.Stop(Soon()); });
    EXPECT_EQ(inner.client.WaitReadable(100ms), std::errc::timed_out) << "the connection goes on";
    Fiber rest([&] { Relay::Pass(inner.server, outer); });
    EXPECT_EQ(tls.ReadAll(room, 4, Soon()).bytes, 4u);
    EXPECT_EQ(std::string_view(room, 4), "pong");
    stop.Join();
    EXPECT_FALSE(inner.client.ShutdownWrite());
    rest.Join();
    back.Join();
  }).Join();
}

TEST_P(TlsStreamTest, ADrainDoesNotCutARecordWhoseHeadHasComeAlone) {
  ExpectARecordInTwoPartsIsReadInADrain(false);
  ExpectARecordInTwoPartsIsReadInADrain(true);
}

constexpr std::size_t kOthers = 3;  // the test's fiber; the one that accepts, and the sweep

// Serves echoes over TLS by an io::RequestHandler.
struct Echoes {
  explicit Echoes(const io::TcpServer::Options& options = {.first_request_at_stop = 0ms, .idle_at_stop = 0ms},
                  io::AfterRequest after_call = io::AfterRequest::kClose)
      : after(after_call),
        server(std::move(listener),
               io::RequestHandler([this](io::TcpConnection& connection) { return Serve(connection); }, SayGoodbye),
               options) {}
  io::AfterRequest Serve(io::TcpConnection& connection) {
    using Kept = std::shared_ptr<TlsStream>;
    std::any& state = connection.state();
    if (!state.has_value()) state = std::make_shared<TlsStream>(connection, context);
    TlsStream& tls = **std::any_cast<Kept>(&state);
    std::error_code error = tls.Handshake(Soon());
    while (!error) {
      char room[1000];
      const IoResult got = tls.ReadRequest(room, sizeof(room), Soon());
      error = got.error;
      if (got.bytes == 0 || !tls.WriteAll(room, got.bytes, Soon()).ok()) break;
    }
    if (error == std::errc::resource_unavailable_try_again) ++found_nothing;
    ++calls;
    return after;
  }

  static void SayGoodbye(io::TcpConnection& connection) {
    const auto* const tls = std::any_cast<std::shared_ptr<TlsStream>>(&connection.state());
    if (tls != nullptr) static_cast<void>((*tls)->ShutdownWrite(Soon()));
  }

  TlsContext context = MakeServer();
  const io::AfterRequest after;
  std::atomic<int> found_nothing{0};
  std::atomic<int> calls{0};
  io::TcpListener listener = [] {
    io::TcpListener made;
    EXPECT_FALSE(made.Listen(io::OwnLoopback()));
    return made;
  }();
  io::TcpServer server;
};

struct TlsClient {
  TlsClient(const Echoes& echoes, const TlsContext& context) {
    EXPECT_FALSE(stream.Connect(echoes.server.local_address(), Soon()));
    tls.emplace(stream, context, "127.0.0.1");
    EXPECT_FALSE(tls->Handshake(Soon())) << tls->error_text();
  }
  std::string Ask(const std::string& text) {
    Fiber writes([&] { EXPECT_TRUE(tls->WriteAll(text, Soon()).ok()); });
    std::string room(text.size(), '\0');
    room.resize(tls->ReadAll(room.data(), room.size(), Soon()).bytes);
    writes.Join();
    return room;
  }

  TcpStream stream;
  std::optional<TlsStream> tls;
};

TEST_P(TlsStreamTest, AConnectionOfARequestHandlerWaitsWithoutAFiber) {
  Echoes echoes;
  ASSERT_TRUE(echoes.server.Start());
  Fiber([&] {
    const auto fibers = [] { return scheduling_group::EntityPool::LiveFibers(); };
    const TlsContext context = MakeClient();
    TcpStream silent;
    ASSERT_FALSE(silent.Connect(echoes.server.local_address(), Soon()));
    std::vector<std::unique_ptr<TlsClient>> clients;
    for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<TlsClient>(echoes, context));
    EXPECT_TRUE(io::Reaches([&] { return fibers() <= kOthers; })) << "after the handshake";
    // More than the handler takes at once, and than the stream reads ahead.
    const std::string large = testing::TestBytes(100'000, 1);
    for (const auto& client : clients) {
      EXPECT_EQ(client->Ask("x"), "x");
      EXPECT_TRUE(client->Ask(large) == large);
    }
    EXPECT_TRUE(io::Reaches([&] { return fibers() <= kOthers; })) << "after an answer";
    for (const auto& client : clients) EXPECT_EQ(client->Ask("again"), "again");
    EXPECT_GE(echoes.found_nothing, 20);
    EXPECT_EQ(echoes.server.counts().open, 11u);
    Fiber stop([&] { echoes.server.Stop(Soon()); });
    for (const auto& client : clients) {
      char room[16];
      const IoResult end = client->tls->ReadSome(room, Soon());
      EXPECT_TRUE(end.ok() && end.bytes == 0) << end.error.message();
    }
    stop.Join();
  }).Join();
}

#if !WEFT_TSAN && !WEFT_ASAN
TEST_P(TlsStreamTest, AConnectionThatWaitsWithoutAFiberHasNoBuffer) {
  Echoes echoes;
  ASSERT_TRUE(echoes.server.Start());
  Fiber([&] {
    const TlsContext context = MakeClient();
    const std::string large = testing::TestBytes(100'000, 1);
    EXPECT_EQ(std::make_unique<TlsClient>(echoes, context)->Ask("x"), "x");  // What there is once for all.
    EXPECT_TRUE(io::Reaches([&] { return echoes.server.counts().open == 0; }));
    const int before = large_objects;
    std::vector<std::unique_ptr<TlsClient>> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(std::make_unique<TlsClient>(echoes, context));
      EXPECT_TRUE(clients.back()->Ask(large) == large);
      // A stream gives back what it has when it waits: the clients', too.
      EXPECT_EQ(clients.back()->tls->WaitReadable(0s), std::errc::timed_out);
    }
    EXPECT_TRUE(io::Reaches([&] { return large_objects == before; })) << large_objects - before;
    clients.clear();
    echoes.server.Stop(Soon());
  }).Join();
}
#endif

// The handshake is not the first request.
TEST_P(TlsStreamTest, TheFirstRequestAfterAHandshakeHasItsTime) {
  Fiber([&] {
    const TlsContext context = MakeClient();
    char room[16];
    // The time begins with the connection; a busy machine may need all of it for the handshake.
    for (auto time = 50ms;; time *= 2) {
      Echoes limited({.first_request_timeout = time});
      ASSERT_TRUE(limited.server.Start());
      TcpStream stream;
      ASSERT_FALSE(stream.Connect(limited.server.local_address(), Soon()));
      TlsStream silent(stream, context, "127.0.0.1");
      const bool shook_hands = !silent.Handshake(Soon());
      const IoResult end = shook_hands ? silent.ReadSome(room, Soon()) : IoResult{};
      EXPECT_TRUE(io::Reaches([&] { return limited.server.counts().open == 0; }));
      EXPECT_EQ(limited.server.counts().timed_out, 1u);
      if (shook_hands && end.ok() && end.bytes == 0) break;  // A good-bye.
      ASSERT_LT(time, 5s) << silent.error_text() << "; " << end.error.message();
    }

    Echoes drained({.first_request_at_stop = 30s, .idle_at_stop = 0ms});
    ASSERT_TRUE(drained.server.Start());
    TlsClient fresh(drained, context);
    TlsClient idle(drained, context);
    EXPECT_EQ(idle.Ask("x"), "x");
    Fiber stop([&] { drained.server.Stop(Soon()); });
    for (TlsClient* client : {&idle, &fresh}) {
      if (client == &fresh) {
        EXPECT_EQ(fresh.Ask("x"), "x") << "though the drain has looked at both";
      }
      const IoResult goodbye = client->tls->ReadSome(room, Soon());
      EXPECT_TRUE(goodbye.ok() && goodbye.bytes == 0) << goodbye.error.message();
    }
    stop.Join();
  }).Join();
}

TEST_P(TlsStreamTest, AConnectionOfARequestHandlerEndsWithItsTls) {
  Echoes echoes({}, io::AfterRequest::kWaitForNext);
  ASSERT_TRUE(echoes.server.Start());
  Fiber([&] {
    const TlsContext context = MakeClient();
    const auto expect_end = [&] {
      EXPECT_TRUE(io::Reaches([&] { return echoes.server.counts().open == 0; }));
      EXPECT_LT(echoes.calls.exchange(0), 10);
    };
    TlsClient says_so(echoes, context);
    EXPECT_FALSE(says_so.tls->ShutdownWrite(Soon()));
    expect_end();
    TlsClient none(echoes, context);
    EXPECT_TRUE(none.stream.WriteAll("this is no record, and there is more to come", Soon()).ok());
    expect_end();
    TlsClient cut(echoes, context);
    EXPECT_TRUE(cut.stream.WriteAll("\x17\x03\x03\x01", Soon()).ok());
    EXPECT_FALSE(cut.stream.ShutdownWrite());
    expect_end();
    TcpStream plain;
    ASSERT_FALSE(plain.Connect(echoes.server.local_address(), Soon()));
    EXPECT_TRUE(plain.WriteAll("GET / HTTP/1.1\r\n\r\n", Soon()).ok());
    expect_end();
  }).Join();
}

TEST_P(TlsStreamTest, AGreetingOfSsl2IsRefused) {
  InFiber([] {
    Pair pair = io::ConnectedPair();
    TlsStream server(pair.server, MakeServer());
    const std::string_view hello("\x80\x2e\x01\x03\x03", 5);
    EXPECT_TRUE(pair.client.WriteAll(std::string(hello) + std::string(43, '\0'), Soon()).ok());
    EXPECT_EQ(server.Handshake(Soon()), TlsErrc::kHandshakeFailed);
    EXPECT_NE(server.error_text().find("SSL 2"), std::string::npos);
  });
}

TEST_P(TlsStreamTest, ADrainDoesNotEndAHandshakeThatHasBegun) {
  io::TcpListener listener;
  ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
  const TlsContext server_context = MakeServer();
  std::atomic<int> made{0}, ended{0};
  io::TcpServer server(std::move(listener),
                       [&](io::TcpConnection& connection) {
                         TlsStream tls(connection, server_context);
                         ++(tls.Handshake(Soon()) ? ended : made);
                       },
                       {.first_request_at_stop = 0ms, .idle_at_stop = 0ms});
  ASSERT_TRUE(server.Start());
  Fiber([&] {
    TcpStream outer, silent;
    ASSERT_FALSE(silent.Connect(server.local_address(), Soon()));
    ASSERT_FALSE(outer.Connect(server.local_address(), Soon()));
    Pair inner = io::ConnectedPair();
    TlsStream tls(inner.client, MakeClient(), "127.0.0.1");
    Fiber client([&] { EXPECT_FALSE(tls.Handshake(Soon())) << tls.error_text(); });
    char room[4096];
    const IoResult hello = inner.server.ReadSome(room, sizeof(room), Soon());
    EXPECT_TRUE(outer.WriteAll(room, hello.bytes, Soon()).ok());
    EXPECT_FALSE(outer.WaitReadable(Soon()));  // The server has answered, and waits for the rest.
    Fiber stop([&] { server.Stop(Soon()); });
    char byte;
    EXPECT_EQ(silent.ReadSome(&byte, 1, Soon()).bytes, 0u) << "so the drain has looked at both";
    Fiber back([&] { Relay::Pass(outer, inner.server); });
    Fiber there([&] { Relay::Pass(inner.server, outer); });
    client.Join();
    stop.Join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(ended, 1) << "the silent one's";
    back.Join();
    EXPECT_FALSE(inner.client.ShutdownWrite());
    there.Join();
  }).Join();
}

// Renegotiation is TLS 1.2's.
TEST_P(TlsStreamTest, RenegotiationIsRefused) {
  InFiber([] {
    Pair pair = io::ConnectedPair();
    TlsStream server(pair.server, MakeServer());
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    SSL* const ssl = SSL_new(context);
    // A thread: the socket is OpenSSL's, and made to block.
    std::thread client([&] {
      const int fd = ::dup(pair.client.fd());
      const int flags = ::fcntl(fd, F_GETFL);
      ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
      SSL_set_fd(ssl, fd);
      EXPECT_EQ(SSL_connect(ssl), 1);
      EXPECT_EQ(SSL_renegotiate(ssl), 1);
      EXPECT_NE(SSL_do_handshake(ssl), 1);  // no_renegotiation
      ::close(fd);
    });
    EXPECT_FALSE(server.Handshake(Soon())) << server.error_text();
    EXPECT_EQ(server.version(), "TLSv1.2");
    char room[16];
    const IoResult got = server.ReadSome(room, Soon());
    EXPECT_EQ(got.bytes, 0u);
    EXPECT_TRUE(got.error.category() == TlsCategory()) << got.error.message();
    client.join();
    SSL_free(ssl);
    SSL_CTX_free(context);
  });
}

TEST(TlsContext, SaysWhatIsWrongAndWhere) {
  std::string why;
  EXPECT_FALSE(TlsContext::ForServer({}, &why));
  EXPECT_NE(why.find("needs a certificate"), std::string::npos) << why;
  EXPECT_FALSE(TlsContext::ForServer({.certificate_chain_file = "/nowhere.pem"}, &why));
  EXPECT_NE(why.find("/nowhere.pem: "), std::string::npos) << why;
  const PemPair pair = Authority().Issue("DNS:a"), other = Authority().Issue("DNS:b");
  EXPECT_FALSE(TlsContext::ForServer({.certificate_chain_pem = pair.certificate, .private_key_pem = other.key}, &why));
  EXPECT_NE(why.find("mismatch"), std::string::npos) << why;
  EXPECT_FALSE(TlsContext::ForServer({.certificate_chain_pem = "no PEM"}, &why));
  EXPECT_FALSE(TlsContext::ForServer(
      {.certificate_chain_pem = pair.certificate, .private_key_pem = pair.key, .alpn = {""}}, &why));
  EXPECT_NE(why.find("1 to 255"), std::string::npos) << why;
  EXPECT_FALSE(TlsContext::ForClient({.trust_file = "/nowhere.pem"}, &why));
  EXPECT_FALSE(TlsContext::ForClient({.trust_pem = "no PEM"}, &why));
}

TEST(TlsContext, ReadsFiles) {
  const PemPair pair = Authority().Issue("DNS:weft.example");
  const TemporaryFolder folder;
  const std::string chain = folder.Write("chain.pem", pair.certificate + Authority().certificate());
  const std::string key = folder.Write("key.pem", pair.key);
  const std::string trust = folder.Write("trust.pem", Authority().certificate());
  std::string why;
  EXPECT_TRUE(TlsContext::ForServer({.certificate_chain_file = chain, .private_key_file = key}, &why)) << why;
  EXPECT_TRUE(TlsContext::ForClient({.trust_file = trust}, &why)) << why;
}

}  // namespace
}  // namespace weft::interop
