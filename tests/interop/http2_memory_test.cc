// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What an idle HTTP/2 connection gives back, and that it has it again when it goes on.
#include <gtest/gtest.h>
#include <malloc.h>
#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_frame_room.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/http2_transport.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::Soon;

// --- Http2FrameRoom ---

struct Fields {
  std::string value;  // of the last field

  static int OnHeader(nghttp2_session*, const nghttp2_frame*, const std::uint8_t*, std::size_t,
                      const std::uint8_t* value, std::size_t size, std::uint8_t, void* fields) {
    static_cast<Fields*>(fields)->value.assign(reinterpret_cast<const char*>(value), size);
    return 0;
  }
};

class Http2FrameRoomTest : public ::testing::Test {
 protected:
  Http2FrameRoomTest() {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, &Fields::OnHeader);
    EXPECT_EQ(room_.MakeSession(&nghttp2_session_server_new3, &session_, callbacks_, &fields_, nullptr), 0);
    EXPECT_EQ(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0), 0);
    static_cast<void>(Send());
    Receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));
    static_cast<void>(Send());
  }
  ~Http2FrameRoomTest() override {
    nghttp2_session_del(session_);
    nghttp2_session_callbacks_del(callbacks_);
  }

  // What the session sends at a time; it lies in the room.
  std::string_view Send() {
    const std::uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    EXPECT_GE(size, 0);
    return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)};
  }
  void Receive(const std::string& bytes) {
    EXPECT_EQ(nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  // A frame of some 16,000 bytes.
  std::string_view SendLargeFrame(char of) {
    const std::string text(16'000, of);
    EXPECT_EQ(nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR,
                                    reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
              0);
    const std::string_view sent = Send();
    EXPECT_EQ(sent.size(), 9 + 8 + text.size());
    EXPECT_EQ(sent.substr(9 + 8), text);
    EXPECT_TRUE(Send().empty());
    return sent;
  }

  Fields fields_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  Http2FrameRoom room_;
  nghttp2_session* session_ = nullptr;
};

TEST_F(Http2FrameRoomTest, ItsPagesGoAndComeBackWhenTheSessionSends) {
  const std::string_view sent = SendLargeFrame('x');
  room_.GiveBack();
  EXPECT_EQ(sent[3], '\0') << "the first page of the room is still there";  // The type of the frame.
  EXPECT_EQ(sent[8000], '\0') << "a page in the middle of the room is still there";
  EXPECT_EQ(SendLargeFrame('y').data(), sent.data());
}

TEST_F(Http2FrameRoomTest, ASessionThatSleepsHasNoPagesAndGoesOnWhenItWakes) {
  if (WEFT_ASAN) GTEST_SKIP() << "none sleeps";
  // HPACK's table has an entry, which the second request names.
  Receive(FrameOf(kHeaders, kEndHeaders | kEndStream, 1, RequestFields() + "\x40\x01x\x05value"));
  EXPECT_EQ(fields_.value, "value");
  const auto has_bytes = [&] {  // of the session itself
    const auto* const bytes = reinterpret_cast<const char*>(session_);
    return std::string_view(bytes, 1'024).find_first_not_of('\0') != std::string_view::npos;
  };
  EXPECT_TRUE(has_bytes());
  for (int i = 0; i < 2; ++i) {
    room_.Sleep();
    room_.Sleep();
    EXPECT_FALSE(has_bytes());
    room_.Wake();
    room_.Wake();
    EXPECT_TRUE(has_bytes());
    fields_.value.clear();
    Receive(
        FrameOf(kHeaders, kEndHeaders | kEndStream, 3 + 2 * static_cast<std::uint32_t>(i), RequestFields() + "\xbe"));
    EXPECT_EQ(fields_.value, "value");
    static_cast<void>(Send());
  }
}

TEST_F(Http2FrameRoomTest, WhatIsBeingReceivedIsNotTheRoom) {
  // A field whose value comes in two frames; HPACK: neither indexed nor Huffman coded.
  const std::string value(20'000, 'v');
  const std::string field = std::string("\x10\x01", 2) + "x\x7f\xa1\x9b\x01" + value;  // 0x7f: 127 and 20,000 - 127
  const std::string fields = RequestFields() + field;
  const std::size_t at_first = 16'000;
  Receive(FrameOf(kHeaders, kEndStream, 1, fields.substr(0, at_first)));
  room_.GiveBack();
  Receive(FrameOf(kContinuation, kEndHeaders, 1, fields.substr(at_first)));
  EXPECT_EQ(fields_.value, value);
}

TEST_F(Http2FrameRoomTest, ARoomThatTheSessionHasFreedIsForgotten) {
  const auto in_the_room = reinterpret_cast<std::uintptr_t>(SendLargeFrame('x').data() + 8000);
  std::vector<std::string> others;
  others.reserve(1000);  // Before: it is not to have that memory itself.
  nghttp2_session_del(session_);
  session_ = nullptr;
  // Until another one has its memory.
  for (int i = 0; i < 1000; ++i) {
    others.emplace_back(4'000, 'y');
    const auto begin = reinterpret_cast<std::uintptr_t>(others.back().data());
    if (begin <= in_the_room && in_the_room < begin + others.back().size()) break;
  }
  room_.GiveBack();
  for (const std::string& other : others) EXPECT_EQ(other.find_first_not_of('y'), std::string::npos);
}

// Its region is as large as what a new one needs.
TEST(Http2FrameRoom, WhatASessionAllocatesLaterIsMallocs) {
  Http2FrameRoom room;
  nghttp2_mem allocator{};
  void* at_its_beginning = nullptr;
  const auto make = [&](nghttp2_session**, const nghttp2_session_callbacks*, void*, const nghttp2_option*,
                        nghttp2_mem* its_allocator) {
    allocator = *its_allocator;
    at_its_beginning = allocator.malloc(16'384, allocator.mem_user_data);
    return 0;
  };
  ASSERT_EQ(room.MakeSession(make, nullptr, nullptr, nullptr, nullptr), 0);
  void* const later = allocator.malloc(100, allocator.mem_user_data);
  const auto region = reinterpret_cast<std::uintptr_t>(at_its_beginning) / room.PageSize() * room.PageSize();
  EXPECT_GE(reinterpret_cast<std::uintptr_t>(later) - region, room.Size());  // Or it lies before the region.
  allocator.free(later, allocator.mem_user_data);
  allocator.free(at_its_beginning, allocator.mem_user_data);
}

// --- Connections ---

class Http2MemoryTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(Http2MemoryTest);

std::size_t BytesInUse() { return ::mallinfo2().uordblks; }

void Answer(Http2Request&, Http2Response& response) { EXPECT_FALSE(response.Send(200, {}, "ok")); }

class Client {
 public:
  explicit Client(const io::SocketAddress& server) {
    EXPECT_FALSE(stream_.Connect(server, Soon()));
    peer_.Greet();
  }
  void Ask() {
    peer_.Ask(next_stream_);
    EXPECT_EQ(peer_.Await(kData, next_stream_, kEndStream).payload, "ok");
    next_stream_ += 2;
  }
  std::string Echo(std::string_view body) {
    constexpr std::size_t kFrame = 15'000;
    std::string answer;
    peer_.Ask(next_stream_, /*end=*/false, "POST");
    while (!body.empty()) {
      const std::string_view piece = body.substr(0, kFrame);
      body.remove_prefix(piece.size());
      peer_.SendFrame(kData, body.empty() ? kEndStream : 0, next_stream_, piece);
    }
    for (bool ends = false; !ends;) {
      const Frame frame = peer_.Await(kData, next_stream_);
      answer += frame.payload;
      ends = frame.ended() || (frame.flags & kEndStream) != 0;
    }
    next_stream_ += 2;
    return answer;
  }
  RawPeer& peer() { return peer_; }
  void Close() { stream_.Close(); }

 private:
  io::TcpStream stream_;
  RawPeer peer_{&stream_};
  std::uint32_t next_stream_ = 1;
};

// std::string's assignment of an empty one keeps the memory.
TEST_P(Http2MemoryTest, AnIdleConnectionHasNothingOfItsLastLargeAnswerAndRequest) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizers keep memory of their own";
  constexpr std::size_t kConnections = 20;
  InFiber([&] {
    const auto answer = [](Http2Request& request, Http2Response& response) {
      std::string body;
      EXPECT_FALSE(request.ReadAll(&body, 60'000));
      EXPECT_FALSE(response.Send(200, {}, body));
    };
    ListeningServer listening(answer);
    std::vector<std::unique_ptr<Client>> clients;
    clients.reserve(kConnections);
    const std::size_t before = BytesInUse();
    for (std::size_t i = 0; i < kConnections; ++i) {
      clients.push_back(std::make_unique<Client>(listening.address()));
    }
    for (const auto& client : clients) EXPECT_EQ(client->Echo(std::string(60'000, 'b')).size(), 60'000u);
    // nghttp2's room for frames, and the rest of a connection.
    const std::size_t limit = before + kConnections * 32'768;
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (BytesInUse() > limit && std::chrono::steady_clock::now() < until) FiberSleepFor(10ms);
    EXPECT_LE(BytesInUse(), limit) << "before: " << before;
    for (const auto& client : clients) client->Close();
    listening.server().Stop();
  });
}

TEST_P(Http2MemoryTest, AnIdleConnectionHasNoRoomToReadInto) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizers keep memory of their own";
  constexpr std::size_t kConnections = 50;
  constexpr std::size_t kReadRoom = 16'384;
  InFiber([&] {
    ListeningServer listening(&Answer);
    std::vector<std::unique_ptr<Client>> clients;
    clients.reserve(kConnections);
    const std::size_t before = BytesInUse();
    for (std::size_t i = 0; i < kConnections; ++i) {
      clients.push_back(std::make_unique<Client>(listening.address()));
    }
    for (int round = 0; round < 2; ++round) {
      for (const auto& client : clients) client->Ask();
      // nghttp2's room for frames, and the rest of a connection, which is smaller.
      const std::size_t limit = before + kConnections * 2 * kReadRoom;
      const auto until = std::chrono::steady_clock::now() + 30s;
      while (BytesInUse() > limit && std::chrono::steady_clock::now() < until) FiberSleepFor(10ms);
      EXPECT_LE(BytesInUse(), limit) << "before: " << before;
    }
    // They wait without a room. A drain ends them as others.
    Fiber stops([&] { listening.server().Stop(Soon()); });
    for (const auto& client : clients) {
      EXPECT_EQ(client->peer().Await(kGoAway).number(), 0x7fff'ffffu);
      const Frame ping = client->peer().Await(kPing);
      client->peer().SendFrame(kPing, kAck, 0, ping.payload);
      EXPECT_EQ(client->peer().Await(kGoAway).number(), 3u);
      client->peer().AwaitEnd();
      client->Close();
    }
    stops.Join();
  });
}

// Longer than a connection waits with its room.
constexpr auto kLongIdle = 200ms;

TEST_P(Http2MemoryTest, AConnectionThatWaitsWithoutARoomEndsByTheServersTimeout) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(kLongIdle, [](std::chrono::milliseconds idle) {
      ListeningServer listening(&Answer, {.idle_timeout = idle});
      io::TcpStream stream;
      EXPECT_FALSE(stream.Connect(listening.address(), io::Soon()));
      RawPeer peer(&stream);
      peer.Greet();
      peer.Ask(1);
      if (peer.Find(kData, 1, kEndStream).ended()) return false;
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      peer.AwaitEnd();
      stream.Close();
      listening.server().Stop();
      EXPECT_EQ(listening.http().counts().idle_timeouts, 1u);
      EXPECT_EQ(listening.server().counts().timed_out, 1u);
      return true;
    }));
  });
}

TEST_P(Http2MemoryTest, AConnectionThatWaitsWithoutARoomEndsByItsIdleTime) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(kLongIdle, [](std::chrono::milliseconds idle) {
      ServedConnection served(&Answer, {.idle_timeout = idle});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      if (peer.Find(kData, 1, kEndStream).ended()) return false;
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      peer.AwaitEnd();
      served.client().Close();
      EXPECT_FALSE(served.Join());
      EXPECT_EQ(served.server().counts().idle_timeouts, 1u);
      return true;
    }));
  });
}

// A transport without memory.
class OutOfMemory {
 public:
  explicit OutOfMemory(io::TcpStream* stream) : stream_(stream) {}
  io::IoResult ReadRequest(void*, std::size_t, Deadline) {
    return {0, std::make_error_code(std::errc::not_enough_memory)};
  }
  io::IoResult ReadSome(void* data, std::size_t size, Deadline deadline) {
    return stream_->ReadSome(data, size, deadline);
  }
  std::error_code AwaitRequest(Deadline deadline) { return WaitReadable(deadline); }
  std::error_code WaitReadable(Deadline deadline) { return stream_->WaitReadable(deadline); }
  io::IoResult WriteSome(const void* data, std::size_t size, Deadline deadline) {
    return stream_->WriteSome(data, size, deadline);
  }
  std::error_code ShutdownWrite(Deadline) { return stream_->ShutdownWrite(); }
  io::TcpStream& transport() { return *stream_; }

 private:
  io::TcpStream* const stream_;
};

TEST_P(Http2MemoryTest, AConnectionThatEndsForLackOfMemorySaysSo) {
  InFiber([] {
    Http2Server http(&Answer);
    io::Pair pair = io::ConnectedPair();
    OutOfMemory stream(&pair.server);
    std::error_code why;
    Fiber serves([&] { why = http.Serve(Http2Transport(stream)); });
    RawPeer peer(&pair.client);
    peer.Greet();
    EXPECT_EQ(peer.Await(kGoAway).code(), kInternalError);
    peer.AwaitEnd();
    pair.client.Close();
    serves.Join();
    EXPECT_EQ(why, std::errc::not_enough_memory);
  });
}

// While a handler runs the reader wakes up for its time limits. It reads what comes after that.
TEST_P(Http2MemoryTest, WhatComesAfterATickOfAnIdleReaderIsRead) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(150ms, [](std::chrono::milliseconds tick) {
      FiberEvent began, may_answer;
      ServedConnection served(
          [&](Http2Request& request, Http2Response& response) {
            began.Set();
            may_answer.Wait();
            Answer(request, response);
          },
          {.idle_timeout = tick});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      EXPECT_TRUE(io::Reaches([&] { return began.IsSet() || served.server().counts().idle_timeouts != 0; }));
      if (!began.IsSet()) return false;
      for (int i = 0; i < 5; ++i) {
        FiberSleepFor(tick + 20ms);
        static_cast<void>(peer.UntilPingAnswer());
      }
      may_answer.Set();
      EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "ok");
      return true;
    }));
  });
}

}  // namespace
}  // namespace weft::interop
