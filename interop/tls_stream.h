// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TlsStream: TLS over a connected io::TcpStream, by OpenSSL: reads and writes as io::TcpStream does.
// For programs that have OpenSSL 3, by the CMake target weft::tls.
// Sample:
//     void Serve(io::TcpConnection& connection) {
//       interop::TlsStream tls(connection, server_context);
//       if (tls.Handshake(5s)) return;                                   // tls.error_text() says why
//       char room[4096];
//       for (;;) {
//         const io::IoResult got = tls.ReadRequest(room, sizeof(room), 60s);
//         if (got.bytes == 0) break;      // ok(): close_notify; TlsErrc::kTruncated: cut off; others: io_result.h
//         if (!tls.WriteAll(room, got.bytes, 60s).ok()) return;
//       }
//       static_cast<void>(tls.ShutdownWrite(5s));                        // our close_notify
//     }
// In an io::RequestHandler, whose connections wait without a fiber, the stream is kept in the connection's state(). It
// reads ahead: so the handler goes on until ReadRequest() has found nothing, after which the connection waits, whatever
// the handler returns. RequestHandler's second function sends the close_notify of one that a drain or a time-out ends.
// Sample:
//     const auto echo = [&](io::TcpConnection& connection) {
//       using Kept = std::shared_ptr<interop::TlsStream>;
//       std::any& state = connection.state();
//       if (!state.has_value()) state = std::make_shared<interop::TlsStream>(connection, server_context);
//       interop::TlsStream& tls = *std::any_cast<Kept&>(state);
//       if (tls.Handshake(5s)) return io::AfterRequest::kClose;               // the first call makes it
//       for (char room[4096];;) {
//         const io::IoResult got = tls.ReadRequest(room, sizeof(room), 5s);   // 5 s for a record that has begun
//         if (got.bytes == 0 || !tls.WriteAll(room, got.bytes, 60s).ok()) return io::AfterRequest::kClose;
//       }
//     };
//     const auto goodbye = [](io::TcpConnection& connection) {
//       using Kept = std::shared_ptr<interop::TlsStream>;
//       if (const Kept* tls = std::any_cast<Kept>(&connection.state())) static_cast<void>((*tls)->ShutdownWrite(5s));
//     };
//     io::TcpServer server(std::move(listener), io::RequestHandler(echo, goodbye));
// Sample:
//     interop::TlsStream tls(stream, client_context, "example.org");   // checks the certificate, and for this name
//     if (auto error = tls.Handshake(5s)) return error;
//
// Errors: those of io/io_result.h, those of TlsErrc (tls_context.h), for which error_text() has OpenSSL's words, and
//   not_connected      before a successful Handshake()
//   resource_unavailable_try_again   Handshake(), ReadRequest(), AwaitRequest() in an io::RequestHandler: nothing has
//                      come, as io::TcpConnection has it
//   broken_pipe        a write after ShutdownWrite(), or after an error of TLS
//   invalid_argument   Handshake() of a client that checks certificates and was given no name
// After timed_out and operation_canceled the call may be made again. A write reports in `bytes` what it has taken over;
// with an error, the last of that may still wait to be sent, and the next write or ShutdownWrite() sends it first.
//
// Who may call: any fiber, which may switch, and any thread, which is blocked. One fiber may read while another one
// writes; two that write at once mix their bytes, in pieces of up to kMaxPiece. The destructor: when nobody is in a
// call. The transport outlives the stream; nothing else reads or writes it. To end calls of others at once: Shutdown()
// of the transport, which io::CancelOnHangup takes.
// Memory: 16 KiB for what comes in, and as much as the largest write has made for what goes out; OpenSSL's buffers only
// while it needs them. WaitReadable() and AwaitRequest() give both back, but for 2 KiB, while they wait, and so does
// ReadRequest() when its connection waits on without a fiber.
//
// How it works. OpenSSL's SSL reads from `in_` and writes into `out_`, two buffers in memory, and never waits. A call
// takes `mutex_`, calls OpenSSL, and releases it; what then has to wait waits without it:
//
//     reader: SSL_read --wants input--> Fill(): one fiber (filling_) reads the transport into in_ --> again
//     writer: SSL_write into out_ --> Flush(): one fiber (flushing_) takes out_ as flight_, and writes that
//
// A read may have to send something: an alert. It makes one attempt and never waits for room. (The answer to a key
// update OpenSSL sends with the next write, one for many: a peer that asks and does not read gets no memory of ours.)
//
// Invariants
//   TX1  SSL, in_, out_ and the marks are touched under mutex_ only, and mutex_ is never held over a wait. While
//        filling_ is set, in_ belongs to the filler alone, and OpenSSL finds it empty; while flushing_ is set, flight_
//        belongs to the flusher. A waiter of WaitReadable() or AwaitRequest() is a filler, too: it would sleep on
//        if another one read what has come.
//   TX2  Ciphertext reaches the transport once and in the order in which OpenSSL made it: flight_ before out_, and a
//        flusher that ends early leaves the rest of flight_, with its offset, to the next one.
//   TX3  Nothing unsent is forgotten: a flusher looks at out_ once more, under mutex_, before it ends without an
//        error. So a reader need not wait for a writer's flush.
//   TX4  The end of the transport without close_notify is never the end of the stream: it is kTruncated.
//   Of OpenSSL's error queue: OT1 in tls_context_state.h: it is cleared, filled and read with no switch between.
// Rejected: OpenSSL on the socket itself (a write that waits must be repeated with the same bytes before a read may
// answer anything, and each record is a system call of its own); OpenSSL's memory BIOs (they copy once more); TLS as an
// option of io::TcpServer (io would need OpenSSL, and the handler decides on time, name and protocol).
#ifndef WEFT_INTEROP_TLS_STREAM_H_
#define WEFT_INTEROP_TLS_STREAM_H_

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/interop/tls_context.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

struct bio_st;
struct ssl_st;

namespace weft::interop {

namespace detail {

// Follows the records of TLS in what a peer sends, to know whether one has begun and not come to its end.
// (SSL_has_pending() does not say so: OpenSSL keeps the head of a record elsewhere.)
// A record has a head of five bytes, the last two of which are the length of the rest, whatever its encryption
// (RFC 8446, 5.1). A greeting in the form of SSL 2 has not: TlsStream refuses it.
class TlsRecords {
 public:
  // The next bytes that have come.
  void Pass(const char* bytes, std::size_t size) noexcept {
    while (size != 0) {
      std::size_t passed = 1;
      if (head_ < kHead) {
        left_ = head_ < kHead - 2 ? 0 : left_ << 8 | static_cast<unsigned char>(*bytes);
        ++head_;
      } else {
        passed = std::min(left_, size);
        left_ -= passed;
      }
      if (head_ == kHead && left_ == 0) head_ = 0;
      bytes += passed;
      size -= passed;
    }
  }
  bool between() const noexcept { return head_ == 0; }

 private:
  static constexpr unsigned kHead = 5;
  unsigned head_ = 0;     // so many bytes of a head have come
  std::size_t left_ = 0;  // behind the head: to come
};

}  // namespace detail

struct TlsCall;

class TlsStream {
 public:
  // The context says which side it is. `server_name`: a client's: the host name or address that the certificate must be
  // for; it is also sent (unless it is an address), so that a server with several names can choose.
  TlsStream(io::TcpStream& transport, const TlsContext& context, std::string_view server_name = {});
  // The same for a handler of io::TcpServer, which then has ReadRequest() and AwaitRequest().
  TlsStream(io::TcpConnection& connection, const TlsContext& context);
  // Says nothing to the peer, which reads kTruncated unless ShutdownWrite() was called.
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // First. None of the others may be called meanwhile. Of a TcpConnection: until the client has sent something, the
  // server's drain and its time-out for the first request end it, as they do TcpConnection::ReadRequest(). (The first
  // request that follows has that time once more.)
  [[nodiscard]] std::error_code Handshake(Deadline deadline = {});

  // As io::TcpStream. 0 bytes without an error: the peer has said that it has finished, or there was no room.
  [[nodiscard]] io::IoResult ReadSome(void* data, std::size_t size, Deadline deadline = {}) {
    return Read(data, size, deadline, /*request=*/false);
  }
  [[nodiscard]] io::IoResult ReadSome(std::span<char> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] io::IoResult ReadSome(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] io::IoResult ReadAll(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] io::IoResult ReadAll(std::span<char> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }
  [[nodiscard]] io::IoResult ReadAll(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }
  // As io::TcpConnection::ReadRequest(): the drain ends it, while no record has begun. Over a TcpStream: as ReadSome().
  [[nodiscard]] io::IoResult ReadRequest(void* data, std::size_t size, Deadline deadline = {}) {
    return Read(data, size, deadline, /*request=*/true);
  }
  // Until a read may be worth a try: bytes have come, which may turn out to be no data.
  [[nodiscard]] std::error_code WaitReadable(Deadline deadline = {}) { return Await(deadline, /*request=*/false); }
  // The same, ended by the drain as ReadRequest().
  [[nodiscard]] std::error_code AwaitRequest(Deadline deadline = {}) { return Await(deadline, /*request=*/true); }

  // Some: up to kMaxPiece.
  [[nodiscard]] io::IoResult WriteSome(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] io::IoResult WriteSome(const iovec* parts, std::size_t count, Deadline deadline = {});
  // Writes all, or returns an error and in `bytes` how much was written.
  [[nodiscard]] io::IoResult WriteAll(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] io::IoResult WriteAll(std::string_view text, Deadline deadline = {}) {
    return WriteAll(text.data(), text.size(), deadline);
  }
  // Changes `parts`: afterwards they describe what was not written.
  [[nodiscard]] io::IoResult WriteAll(iovec* parts, std::size_t count, Deadline deadline = {});

  // Sends what is unsent and our close_notify: the peer reads what was written, then the end. Reading goes on.
  std::error_code ShutdownWrite(Deadline deadline = {});
  // The same, and discards what comes until the peer's close_notify.
  std::error_code Shutdown(Deadline deadline = {});

  // The next write begins with new keys, and asks the peer for new ones of its own: for connections that send a lot
  // (RFC 8446, 5.5). TLS 1.3 only; false otherwise, and before the handshake.
  bool RequestKeyUpdate();
  std::size_t unsent_bytes() const;  // as ciphertext, for statistics

  // After the handshake; they do not change. Any fiber or thread.
  const std::string& alpn() const noexcept { return alpn_; }  // empty: no application protocol was agreed on
  bool resumed() const noexcept { return resumed_; }
  const std::string& version() const noexcept { return version_; }  // "TLSv1.3"
  // Of the last TlsErrc: OpenSSL's reasons. Any fiber or thread; may switch.
  std::string error_text() const;

  // The stream below. Its deadlines and options are set there; nothing else reads or writes it.
  io::TcpStream& transport() noexcept { return transport_; }

  static constexpr std::size_t kMaxPiece = 65536;  // what one write has in memory, as ciphertext: four records

 private:
  enum class State { kNew, kReady, kFailed };
  static constexpr std::size_t kInSize = 16384 + 512;  // the most that a record has, with its head
  static constexpr std::size_t kKept = 1024;           // of out_ and of flight_, during a wait
  using Lock = std::unique_lock<FiberMutex>;

  struct Bio;  // the calls that OpenSSL makes

  void Begin(std::string_view server_name);
  std::string SetName(const std::string& name);
  std::error_code MakeHandshake(Lock& lock, Deadline deadline);
  io::IoResult Read(void* data, std::size_t size, Deadline deadline, bool request);
  std::error_code Await(Deadline deadline, bool request);
  bool HasInput() const;  // for OpenSSL. Without any a call of it would find that out in several hundred instructions.
  io::IoResult ReadAtOnce(Lock& lock, void* data, std::size_t size, Deadline deadline, bool request);
  // A connection's: `error` has ended the stream for good, unless it is one after which calls may be made again.
  void TellIfEnded(std::error_code error);
  std::error_code Fill(Lock& lock, Deadline deadline, bool request);
  void GiveBuffersBack();  // frees the buffers that nobody uses
  std::error_code Flush(Lock& lock, Deadline deadline);
  void SendAnswers(Lock& lock);
  // Until another one has done what it does, or the deadline.
  std::error_code WaitForChange(Lock& lock, Deadline deadline);
  // Keeps the reason, and makes the stream unusable.
  std::error_code Fail(Lock& lock, TlsErrc code, std::string text);
  void FinishHandshake();
  std::error_code Encrypt(Lock& lock, const void* data, std::size_t size, Deadline deadline);  // one part
  std::error_code CheckReady() const;
  std::error_code CheckWritable() const;

  io::TcpStream& transport_;
  io::TcpConnection* const connection_;
  const std::shared_ptr<TlsContextState> context_;
  std::string server_name_;
  std::string alpn_;
  std::string version_;
  bool resumed_ = false;

  mutable FiberMutex mutex_;
  FiberConditionVariable changed_;  // filling_ or flushing_ has ended
  ssl_st* ssl_ = nullptr;
  State state_ = State::kNew;
  std::error_code cannot_begin_;
  std::error_code failure_;  // of kFailed
  std::string error_text_;
  bool write_is_shut_ = false;

  bool has_begun_ = false;  // something has come
  std::unique_ptr<char[]> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  bool filling_ = false;
  bool wants_input_ = false;    // OpenSSL has said so of all that has come; what it has pending is a part of a record
  detail::TlsRecords records_;  // of what has come
  std::vector<char> out_;
  std::vector<char> flight_;
  std::size_t flight_sent_ = 0;
  bool flushing_ = false;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_TLS_STREAM_H_
