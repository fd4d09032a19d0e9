// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AsioStream: a TcpStream as Boost.Asio's SyncReadStream and SyncWriteStream, so that code built on these concepts runs
// in fibers unchanged: Boost.Beast (HTTP, WebSocket), boost::asio::ssl::stream, boost::asio::read_until() ...
// Sample:
//     io::AsioStream stream(&tcp);
//     stream.expires_after(5s);
//     boost::beast::http::read(stream, buffer, request, error);
// Sample:
//     boost::asio::ssl::stream<io::AsioStream> tls(io::AsioStream(&tcp), context);
//     tls.handshake(boost::asio::ssl::stream_base::server, error);
//
// It has only the synchronous operations, which park the fiber. Errors: those of io_result.h in boost's system category
// (so boost::asio::error::timed_out and operation_aborted compare equal), and boost::asio::error::eof. The TcpStream
// must outlive it. Who may call: as TcpStream. Only this header needs Boost.Asio.
#ifndef WEFT_IO_ASIO_STREAM_H_
#define WEFT_IO_ASIO_STREAM_H_

#include <sys/uio.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstddef>

#include "weft/base/deadline.h"
#include "weft/io/tcp_stream.h"

namespace boost::beast {
enum class role_type;  // beast/core/role.hpp
}

namespace weft::io {

class AsioStream {
 public:
  // Required by ssl::stream; no operation uses them.
  using lowest_layer_type = AsioStream;
  using executor_type = boost::asio::io_context::executor_type;

  // Over `stream`, which outlives this.
  explicit AsioStream(TcpStream* stream) : stream_(stream) {}

  // The deadline of all later operations; none at first. The names are those of boost::beast::tcp_stream.
  void expires_at(Deadline deadline) { deadline_ = deadline; }
  template <class Rep, class Period>
  void expires_after(std::chrono::duration<Rep, Period> duration) {
    expires_at(duration);
  }
  void expires_never() { expires_at(Deadline::None()); }

  // Reads what is there, at least one byte; parks the fiber until then. `error`: eof at the peer's end. The form
  // without `error` throws boost::system::system_error.
  template <class MutableBuffers>
  std::size_t read_some(const MutableBuffers& buffers, boost::system::error_code& error) {
    const Parts parts(boost::asio::buffer_sequence_begin(buffers), boost::asio::buffer_sequence_end(buffers));
    error.clear();
    if (parts.size == 0) return 0;
    // One buffer is the usual case: recv() and send() have no header to copy, as recvmsg() and sendmsg() have.
    const IoResult result = parts.count == 1
                                ? stream_->ReadSome(parts.vector[0].iov_base, parts.vector[0].iov_len, deadline_)
                                : stream_->ReadSome(parts.vector, parts.count, deadline_);
    if (result.ok() && result.bytes == 0) error = boost::asio::error::eof;
    return Report(result, error);
  }
  template <class MutableBuffers>
  std::size_t read_some(const MutableBuffers& buffers) {
    boost::system::error_code error;
    const std::size_t bytes = read_some(buffers, error);
    if (error) throw boost::system::system_error(error, "read_some");
    return bytes;
  }

  // Writes what the kernel has room for, at least one byte; parks the fiber until then. The form without `error` throws
  // boost::system::system_error.
  template <class ConstBuffers>
  std::size_t write_some(const ConstBuffers& buffers, boost::system::error_code& error) {
    const Parts parts(boost::asio::buffer_sequence_begin(buffers), boost::asio::buffer_sequence_end(buffers));
    error.clear();
    if (parts.size == 0) return 0;
    return Report(parts.count == 1 ? stream_->WriteSome(parts.vector[0].iov_base, parts.vector[0].iov_len, deadline_)
                                   : stream_->WriteSome(parts.vector, parts.count, deadline_),
                  error);
  }
  template <class ConstBuffers>
  std::size_t write_some(const ConstBuffers& buffers) {
    boost::system::error_code error;
    const std::size_t bytes = write_some(buffers, error);
    if (error) throw boost::system::system_error(error, "write_some");
    return bytes;
  }

  // The stream below.
  TcpStream& stream() { return *stream_; }
  // For ssl::stream and Beast: there is nothing below that they may use.
  lowest_layer_type& lowest_layer() { return *this; }
  const lowest_layer_type& lowest_layer() const { return *this; }
  // Of a context that no thread runs. With system_executor the first ssl::stream, which makes timers for asynchronous
  // operations, would start two threads for each CPU.
  executor_type get_executor() {
    static auto* const context = new boost::asio::io_context;
    return context->get_executor();
  }

 private:
  // The first buffers of a sequence, as many as one system call takes here.
  struct Parts {
    static constexpr std::size_t kMost = 16;

    template <class Iterator>
    Parts(Iterator begin, Iterator end) {
      for (; begin != end && count < kMost; ++begin) {
        const boost::asio::const_buffer buffer(*begin);
        if (buffer.size() == 0) continue;
        vector[count++] = {.iov_base = const_cast<void*>(buffer.data()), .iov_len = buffer.size()};
        size += buffer.size();
      }
    }

    iovec vector[kMost];
    std::size_t count = 0;
    std::size_t size = 0;
  };

  static std::size_t Report(const IoResult& result, boost::system::error_code& error) {
    if (!result.ok()) error.assign(result.error.value(), boost::system::system_category());
    return result.bytes;
  }

  TcpStream* stream_;
  Deadline deadline_;
};

// Beast finds it by its argument, and ends the connection below a WebSocket by it. Shuts the sending side down, and
// reads to the peer's end within the stream's deadline.
inline void teardown(boost::beast::role_type, AsioStream& stream, boost::system::error_code& error) {
  (void)stream.stream().ShutdownWrite();
  char dropped[512];
  do {
    (void)stream.read_some(boost::asio::buffer(dropped), error);
  } while (!error);
  if (error == boost::asio::error::eof) error.clear();
}

}  // namespace weft::io

#endif  // WEFT_IO_ASIO_STREAM_H_
