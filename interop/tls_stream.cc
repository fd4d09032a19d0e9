// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <new>
#include <utility>

#include "weft/interop/tls/tls_context_state.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

constexpr std::chrono::seconds kNoWait{0};

std::error_code Code(std::errc code) { return std::make_error_code(code); }

bool IsAddress(const std::string& name) {
  unsigned char address[16];
  return ::inet_pton(AF_INET, name.c_str(), address) == 1 || ::inet_pton(AF_INET6, name.c_str(), address) == 1;
}

}  // namespace

// Called by OpenSSL, hence under mutex_. They never wait (OT1): an empty in_ is "try again", and out_ takes all.
struct TlsStream::Bio {
  static int Read(BIO* bio, char* data, std::size_t size, std::size_t* got) {
    auto* const stream = static_cast<TlsStream*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *got = stream->filling_ ? 0 : std::min(size, stream->in_end_ - stream->in_begin_);  // TX1
    if (*got == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(data, stream->in_.get() + stream->in_begin_, *got);
    stream->in_begin_ += *got;
    return 1;
  }
  static int Write(BIO* bio, const char* data, std::size_t size, std::size_t* put) {
    auto* const stream = static_cast<TlsStream*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    stream->out_.insert(stream->out_.end(), data, data + size);
    *put = size;
    return 1;
  }
  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static int Create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }
  static const BIO_METHOD* Method() {
    static const BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
      BIO_meth_set_read_ex(made, &Read);
      BIO_meth_set_write_ex(made, &Write);
      BIO_meth_set_ctrl(made, &Control);
      BIO_meth_set_create(made, &Create);
      return made;
    }();
    return method;
  }
};

TlsStream::TlsStream(io::TcpStream& transport, const TlsContext& context, std::string_view server_name)
    : transport_(transport), connection_(nullptr), context_(context.state_) {
  Begin(server_name);
}

TlsStream::TlsStream(io::TcpConnection& connection, const TlsContext& context)
    : transport_(connection.stream()), connection_(&connection), context_(context.state_) {
  Begin({});
}

TlsStream::~TlsStream() {
  if (ssl_ == nullptr) return;
  // Without close_notify OpenSSL takes the session for one that cannot be resumed. It can: RFC 5246, 7.2.1.
  if (state_ == State::kReady) SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(ssl_);
}

void TlsStream::Begin(std::string_view server_name) {
  ERR_clear_error();
  server_name_ = server_name;
  cannot_begin_ = Code(std::errc::not_enough_memory);
  ssl_ = SSL_new(context_->context.get());
  BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(Bio::Method());
  if (bio == nullptr) return;
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, &server_name_);
  if (context_->is_server) {
    SSL_set_accept_state(ssl_);
    cannot_begin_ = {};
    return;
  }
  SSL_set_connect_state(ssl_);
  error_text_ = SetName(server_name_);
  cannot_begin_ = error_text_.empty() ? std::error_code() : Code(std::errc::invalid_argument);
}

std::error_code TlsStream::Fail(Lock& lock, TlsErrc code, std::string text) {
  state_ = State::kFailed;
  failure_ = code;
  error_text_ = std::move(text);
  SendAnswers(lock);  // The alert, if there is room.
  return code;
}

std::error_code TlsStream::CheckReady() const {
  if (state_ == State::kReady) return {};
  return state_ == State::kNew ? Code(std::errc::not_connected) : failure_;
}

std::error_code TlsStream::CheckWritable() const {
  if (write_is_shut_ || state_ == State::kFailed) return Code(std::errc::broken_pipe);
  return CheckReady();
}

std::error_code TlsStream::WaitForChange(Lock& lock, Deadline deadline) {
  try {
    if (changed_.wait(lock, deadline) == std::cv_status::timeout) return Code(std::errc::timed_out);
  } catch (const FiberCancelled&) {
    return Code(std::errc::operation_canceled);  // As calls of io/ do; the next wait throws again.
  }
  return {};
}

std::error_code TlsStream::Fill(Lock& lock, Deadline deadline, bool request) {
  if (filling_) return WaitForChange(lock, deadline);
  if (in_begin_ != in_end_) return {};  // Another one has filled it.
  const bool by_request = request && connection_ != nullptr && records_.between();
  if (in_ == nullptr) in_.reset(new (std::nothrow) char[kInSize]);
  if (in_ == nullptr) return Code(std::errc::not_enough_memory);
  filling_ = true;
  lock.unlock();
  const io::IoResult got = by_request ? connection_->ReadRequest(in_.get(), kInSize, deadline)
                                      : transport_.ReadSome(in_.get(), kInSize, deadline);
  lock.lock();
  filling_ = false;
  in_begin_ = 0;
  in_end_ = got.bytes;
  if (got.bytes != 0) wants_input_ = false;
  records_.Pass(in_.get(), got.bytes);
  changed_.notify_all();
  if (got.error == std::errc::resource_unavailable_try_again) GiveBuffersBack();  // The connection goes on waiting.
  if (!got.ok()) return got.error;
  if (got.bytes != 0) return {};
  if (state_ == State::kReady) {
    error_text_ = "the peer has closed the connection without close_notify";
    return TlsErrc::kTruncated;  // TX4
  }
  error_text_ = "the peer has closed the connection in the handshake";
  return TlsErrc::kTruncated;
}

std::error_code TlsStream::Flush(Lock& lock, Deadline deadline) {
  for (;;) {
    if (flushing_) {
      if (std::error_code error = WaitForChange(lock, deadline)) return error;
      continue;
    }
    if (flight_sent_ == flight_.size()) {
      flight_.clear();
      flight_sent_ = 0;
      if (out_.empty()) return {};  // TX3
      flight_.swap(out_);
    }
    flushing_ = true;
    lock.unlock();
    const io::IoResult put =
        transport_.WriteAll(flight_.data() + flight_sent_, flight_.size() - flight_sent_, deadline);
    lock.lock();
    flight_sent_ += put.bytes;  // TX2
    flushing_ = false;
    changed_.notify_all();
    if (!put.ok()) return put.error;
  }
}

void TlsStream::SendAnswers(Lock& lock) {
  if (flushing_ || out_.empty()) return;    // TX3: the flusher sees it.
  static_cast<void>(Flush(lock, kNoWait));  // The next write reports what keeps it.
}

void TlsStream::GiveBuffersBack() {
  if (!filling_ && in_begin_ == in_end_) in_.reset();
  if (flushing_ || !out_.empty() || flight_sent_ != flight_.size()) return;
  flight_sent_ = 0;
  flight_.clear();
  for (std::vector<char>* buffer : {&out_, &flight_}) {
    if (buffer->capacity() > kKept) std::vector<char>().swap(*buffer);
  }
}

void TlsStream::TellIfEnded(std::error_code error) {
  if (connection_ == nullptr || error == std::errc::timed_out || error == std::errc::operation_canceled ||
      error == std::errc::resource_unavailable_try_again) {
    return;
  }
  connection_->MarkAsEnded();
}

io::IoResult TlsStream::Read(void* data, std::size_t size, Deadline deadline, bool request) {
  Lock lock(mutex_);
  const io::IoResult got = ReadAtOnce(lock, data, size, deadline, request);
  if (got.bytes == 0 && size != 0) TellIfEnded(got.error);
  // It may have come with the end of the handshake.
  if (got.bytes != 0 && request && connection_ != nullptr) connection_->SetHasSentRequest(true);
  return got;
}

io::IoResult TlsStream::ReadAtOnce(Lock& lock, void* data, std::size_t size, Deadline deadline, bool request) {
  for (;;) {
    if (std::error_code error = CheckReady()) return {0, error};  // Another call may have failed meanwhile.
    if (size == 0) return {};
    if (HasInput() || SSL_in_init(ssl_) == 1) {  // The latter: RequestKeyUpdate(), which goes out, or half a ticket.
      std::size_t got = 0;
      TlsCall call = CallTls(ssl_, [&](SSL* ssl) { return SSL_read_ex(ssl, data, size, &got); });
      switch (call.end) {
        case TlsCall::End::kDone:
          return {got, {}};
        case TlsCall::End::kClosed:
          return {};
        case TlsCall::End::kFailed:
          return {0, Fail(lock, TlsErrc::kProtocolError, std::move(call.text))};
        case TlsCall::End::kWantsInput:
          wants_input_ = true;
          break;
      }
    }
    SendAnswers(lock);
    if (std::error_code error = Fill(lock, deadline, request)) return {0, error};
  }
}

bool TlsStream::HasInput() const {
  return in_begin_ != in_end_ || SSL_has_pending(ssl_) == 1 || (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0;
}

io::IoResult TlsStream::ReadAll(void* data, std::size_t size, Deadline deadline) {
  io::IoResult all;
  while (all.bytes < size) {
    const io::IoResult some = ReadSome(static_cast<char*>(data) + all.bytes, size - all.bytes, deadline);
    all.bytes += some.bytes;
    all.error = some.error;
    if (!some.ok() || some.bytes == 0) break;
  }
  return all;
}

std::error_code TlsStream::Await(Deadline deadline, bool request) {
  Lock lock(mutex_);
  if (std::error_code error = CheckReady()) return error;
  if (filling_) return WaitForChange(lock, deadline);
  if (HasInput() && !wants_input_) return {};
  GiveBuffersBack();
  const bool by_request = request && connection_ != nullptr && records_.between();
  filling_ = true;  // TX1
  lock.unlock();
  const std::error_code error = by_request ? connection_->AwaitRequest(deadline) : transport_.WaitReadable(deadline);
  lock.lock();
  filling_ = false;
  changed_.notify_all();
  return error;
}

std::error_code TlsStream::Encrypt(Lock& lock, const void* data, std::size_t size, Deadline deadline) {
  for (;;) {
    if (std::error_code error = CheckWritable()) return error;
    std::size_t put = 0;
    TlsCall call = CallTls(ssl_, [&](SSL* ssl) { return SSL_write_ex(ssl, data, size, &put); });
    if (call.end == TlsCall::End::kDone) return {};
    // It is in the middle of a message that the peer sends, a ticket say.
    if (call.end != TlsCall::End::kWantsInput) return Fail(lock, TlsErrc::kProtocolError, std::move(call.text));
    if (std::error_code error = Fill(lock, deadline, /*request=*/false)) return error;
  }
}

io::IoResult TlsStream::WriteSome(const void* data, std::size_t size, Deadline deadline) {
  const iovec part{const_cast<void*>(data), size};
  return WriteSome(&part, 1, deadline);
}

io::IoResult TlsStream::WriteSome(const iovec* parts, std::size_t count, Deadline deadline) {
  Lock lock(mutex_);
  if (std::error_code error = CheckWritable()) return {0, error};
  // What an earlier write has left: so no more than two pieces are unsent.
  if (std::error_code error = Flush(lock, deadline)) return {0, error};
  io::IoResult taken;
  for (std::size_t i = 0; i < count && taken.bytes < kMaxPiece; ++i) {
    const std::size_t size = std::min(parts[i].iov_len, kMaxPiece - taken.bytes);
    if (size == 0) continue;
    taken.error = Encrypt(lock, parts[i].iov_base, size, deadline);
    if (!taken.ok()) return taken;
    taken.bytes += size;
  }
  taken.error = Flush(lock, deadline);
  return taken;
}

io::IoResult TlsStream::WriteAll(const void* data, std::size_t size, Deadline deadline) {
  iovec part{const_cast<void*>(data), size};
  return WriteAll(&part, 1, deadline);
}

io::IoResult TlsStream::WriteAll(iovec* parts, std::size_t count, Deadline deadline) {
  io::IoResult all;
  for (;;) {
    for (; count != 0 && parts->iov_len == 0; --count) ++parts;
    if (count == 0) return all;
    const io::IoResult some = WriteSome(parts, count, deadline);
    all.bytes += some.bytes;
    for (std::size_t left = some.bytes; left != 0;) {
      const std::size_t used = std::min(left, parts->iov_len);
      parts->iov_base = static_cast<char*>(parts->iov_base) + used;
      parts->iov_len -= used;
      left -= used;
      if (parts->iov_len == 0 && left != 0) ++parts, --count;
    }
    if (!some.ok()) {
      all.error = some.error;
      return all;
    }
  }
}

std::error_code TlsStream::ShutdownWrite(Deadline deadline) {
  Lock lock(mutex_);
  if (std::error_code error = CheckReady()) {
    return state_ == State::kFailed ? Code(std::errc::broken_pipe) : error;
  }
  // OpenSSL does not send close_notify in the middle of a message of either side.
  while (SSL_in_init(ssl_) == 1) {
    TlsCall call = CallTls(ssl_, [](SSL* ssl) { return SSL_do_handshake(ssl); });
    if (call.end == TlsCall::End::kDone) break;
    if (call.end != TlsCall::End::kWantsInput) return Fail(lock, TlsErrc::kProtocolError, std::move(call.text));
    if (std::error_code error = Fill(lock, deadline, /*request=*/false)) return error;
    if (CheckReady()) return Code(std::errc::broken_pipe);  // Another call has failed meanwhile.
  }
  if (!write_is_shut_) {
    write_is_shut_ = true;
    // 0: the peer's is still to come.
    const TlsCall call = CallTls(ssl_, [](SSL* ssl) { return SSL_shutdown(ssl) < 0 ? -1 : 1; });
    if (call.end == TlsCall::End::kFailed) return Fail(lock, TlsErrc::kProtocolError, call.text);
  }
  return Flush(lock, deadline);
}

std::error_code TlsStream::Shutdown(Deadline deadline) {
  if (std::error_code error = ShutdownWrite(deadline)) return error;
  for (;;) {
    char discarded[4096];
    const io::IoResult got = ReadSome(discarded, sizeof(discarded), deadline);
    if (!got.ok() || got.bytes == 0) return got.error;
    // A read that finds bytes does not look at its deadline.
    if (deadline.expired()) return std::make_error_code(std::errc::timed_out);
  }
}

bool TlsStream::RequestKeyUpdate() {
  const std::scoped_lock lock(mutex_);
  if (CheckReady()) return false;
  const TlsCall call = CallTls(ssl_, [](SSL* ssl) { return SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED); });
  return call.end == TlsCall::End::kDone;
}

std::size_t TlsStream::unsent_bytes() const {
  const std::scoped_lock lock(mutex_);
  return out_.size() + flight_.size() - flight_sent_;
}

std::string TlsStream::error_text() const {
  const std::scoped_lock lock(mutex_);
  return error_text_;
}

// --- The handshake ---

std::string TlsStream::SetName(const std::string& name) {
  if (name.empty()) {
    return context_->verify ? "the server's name is empty: there is nothing to check its certificate for" : "";
  }
  // A name with a zero byte would be checked up to it only.
  if (name.find('\0') != std::string::npos) return "the server's name has a zero byte";
  const bool address = IsAddress(name);
  if (!address && SSL_set_tlsext_host_name(ssl_, name.c_str()) != 1) return "the server's name is too long";
  if (context_->verify) {
    SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int set =
        address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), name.c_str()) : SSL_set1_host(ssl_, name.c_str());
    if (set != 1) return "the server's name cannot be checked: " + TakeErrorText();
  }
  if (!context_->resumption) return {};
  if (const TlsSession session = context_->TakeSession(name)) SSL_set_session(ssl_, session.get());
  return {};
}

std::error_code TlsStream::Handshake(Deadline deadline) {
  Lock lock(mutex_);
  const std::error_code error = MakeHandshake(lock, deadline);
  if (error) TellIfEnded(error);
  return error;
}

std::error_code TlsStream::MakeHandshake(Lock& lock, Deadline deadline) {
  if (cannot_begin_) return cannot_begin_;
  if (state_ == State::kReady) return {};
  if (state_ == State::kFailed) return failure_;
  for (;;) {
    TlsCall call = CallTls(ssl_, [](SSL* ssl) { return SSL_do_handshake(ssl); });
    if (call.end == TlsCall::End::kFailed || call.end == TlsCall::End::kClosed) {
      const bool rejected = SSL_get_verify_result(ssl_) != X509_V_OK;
      if (rejected) {
        call.text.append(": ").append(X509_verify_cert_error_string(SSL_get_verify_result(ssl_)));
      }
      return Fail(lock, rejected ? TlsErrc::kCertificateRejected : TlsErrc::kHandshakeFailed, std::move(call.text));
    }
    if (std::error_code error = Flush(lock, deadline)) return error;
    if (call.end == TlsCall::End::kDone) break;
    if (std::error_code error = Fill(lock, deadline, /*request=*/!has_begun_)) return error;
    if (std::exchange(has_begun_, true)) continue;
    if (connection_ != nullptr) connection_->SetHasSentRequest(false);
    // No record begins so, but a greeting that OpenSSL would take: then records_ could not follow.
    if ((static_cast<unsigned char>(in_[0]) & 0x80) != 0) {
      return Fail(lock, TlsErrc::kHandshakeFailed, "the peer has begun as SSL 2 does");
    }
  }
  FinishHandshake();
  return {};
}

void TlsStream::FinishHandshake() {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  alpn_.assign(reinterpret_cast<const char*>(name), size);
  version_ = SSL_get_version(ssl_);
  resumed_ = SSL_session_reused(ssl_) == 1;
  state_ = State::kReady;
}

}  // namespace weft::interop
