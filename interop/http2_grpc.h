// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2GrpcService: serves gRPC by Http2Server, without gRPC's library: a fiber for each call, and no thread beside the
// workers. For programs that have nghttp2, by the CMake target weft::http2.
// Sample:
//     interop::Http2GrpcService service;
//     service.AddUnary<EchoRequest, EchoReply>(
//         "/weft.examples.Greeter/Echo",
//         [](interop::GrpcCall&, const EchoRequest& request, EchoReply* reply) -> interop::GrpcStatus {
//           if (request.payload().empty()) return {interop::GrpcCode::kInvalidArgument, "no payload"};
//           reply->set_payload(request.payload());
//           return {};
//         });
//     service.Add("/weft.examples.Greeter/EchoAll", [](interop::GrpcCall& call) -> interop::GrpcStatus {
//       EchoRequest request;                                  // messages both ways, as many as there are
//       EchoReply reply;
//       while (call.Read(&request)) {
//         reply.set_payload(request.payload());
//         if (!call.Write(reply)) break;
//       }
//       return {};
//     });
//     interop::Http2Server http(service.handler());
// Then as in interop/http2_server.h (connections, TLS, drain, limits). For gRPC's own server: interop/grpc_server.h.
//
// A handler runs in a CancelScope: it is cancelled at the client's deadline, when the client cancels the call or has
// gone, and when the connection ends. After the deadline the call ends with kDeadlineExceeded, unless the handler still
// says kOk; in the middle of a message that it sends, its stream is reset. An exception that leaves it, but for
// FiberCancelled, is logged and becomes kUnknown.
// A unary handler begins when the client has ended its messages; a second message is kUnimplemented, and so are
// compression by anything but gzip and a path that nobody has added. Metadata above Http2Options::max_header_list are
// kResourceExhausted. Other content types get the HTTP status 415, all but POST 405.
// gRPC's own services: interop/http2_grpc_health.h, interop/http2_grpc_reflection.h.
// Source: the protocol "gRPC over HTTP2" of grpc/grpc, doc/PROTOCOL-HTTP2.md.
//
// Who may call: Add(), AddUnary(): before it serves. The handler: many fibers at once; the service outlives it.
//
// GrpcCall: a call of gRPC that is being served.
//
// Messages are Protobuf's, or whatever has its ParseFromArray(), ByteSizeLong() and SerializeWithCachedSizesToArray();
// or bytes. Those of the client may be compressed by gzip; ours are not. Memory: max_message for a message that comes,
// as far as it has come, and at most twice as much in all; as much again, once or twice, for what it unpacks to; the
// message that is being written.
//
// A call that has failed, because a message of the client is none, is too large or is cut short, ends with the status
// that says so, whatever the handler returns. A handler that needs all messages asks failed() after the last Read().
//
// Who may call: the handler and the fibers that it waits for; one reads while another one writes, and adds metadata.
// Reads and writes are cancellation points, also if they need not wait. They wait for the client as long as the call
// and its connection last, whatever Http2Options::stream_timeout is. A write that was ended, by whatever, ends the
// call: its stream is reset, since nobody knows how much of the message has gone.
#ifndef WEFT_INTEROP_HTTP2_GRPC_H_
#define WEFT_INTEROP_HTTP2_GRPC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2_grpc_status.h"  // IWYU pragma: export
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_server.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

class GrpcCall {
 public:
  GrpcCall(const GrpcCall&) = delete;
  GrpcCall& operator=(const GrpcCall&) = delete;

  std::string_view method() const { return request_.path(); }  // "/package.Service/Method"
  // The request's fields as they came: those of HTTP/2 and gRPC among them, values of "-bin" in base64.
  const Http2Headers& metadata() const { return request_.headers(); }
  // By which the client wants its answer. Then the handler is cancelled, and the call ends with kDeadlineExceeded.
  Deadline deadline() const noexcept { return deadline_; }
  // The server drains: Http2Request::draining(). False after a cancellation before the deadline: the client has gone.
  bool draining() const noexcept { return request_.draining(); }

  // Fields before the first message, and after the last: as http2_headers.h, but no "grpc-..." or "content-type".
  void AddMetadata(std::string_view name, std::string_view value) { metadata_.Add(name, value); }
  void AddTrailer(std::string_view name, std::string_view value) { trailers_.Add(name, value); }
  // Sends the metadata now, for clients that wait for it before they send messages. False: as Write().
  [[nodiscard]] bool SendMetadata();

  // The client's next message. False: it has sent all, or the call has failed.
  template <class Message>
  [[nodiscard]] bool Read(Message* message) {
    std::string_view bytes;
    if (!ReadBytes(&bytes)) return false;
    static_assert(kMostMessage <= std::numeric_limits<int>::max());
    if (message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return true;
    Fail({GrpcCode::kInternal, "a message that cannot be parsed"});
    return false;
  }
  [[nodiscard]] bool ReadBytes(std::string_view* message);  // *message is good until the next read

  // Sends a message. False: the client takes no more, or the call has failed.
  template <class Message>
  [[nodiscard]] bool Write(const Message& message) {
    return Put(message) && Flush();
  }
  [[nodiscard]] bool WriteBytes(std::string_view message);

  // A message of the client is none.
  [[nodiscard]] bool failed();

  // The most bytes of a message that the length in front of it allows.
  static constexpr std::size_t kMostMessage = GrpcInbox::kMostMessage;

 private:
  friend class Http2GrpcService;

  GrpcCall(Http2Request& request, Http2Response& response, std::size_t max_message)
      : request_(request), response_(response), in_(max_message) {}

  // A unary call's message has been read: whether it is the only one. False: the call has failed.
  bool AwaitEnd();
  // A unary call's. It goes out with the rest of the answer, unless the handler has begun that.
  template <class Message>
  void Reply(const Message& message) {
    static_cast<void>(response_.started() ? Write(message) : Put(message));
  }
  // Into `out_`.
  template <class Message>
  bool Put(const Message& message) {
    char* const to = MakeRoom(message.ByteSizeLong());
    if (to != nullptr) message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(to));
    return to != nullptr;
  }
  // For a message of so many bytes, behind its head. nullptr: the call has failed.
  char* MakeRoom(std::size_t size);
  bool Flush();
  Http2Headers Head() const;     // the header fields of the answer
  bool ReadMore();               // into in_. False: the stream has ended, or the call has failed.
  bool SetDeadline();            // False: it is none.
  void Fail(GrpcStatus status);  // the first counts
  void Finish(GrpcStatus status);
  std::error_code SendEnd(const GrpcStatus& status);

  Http2Request& request_;
  Http2Response& response_;
  Deadline deadline_;
  Http2Headers metadata_;
  Http2Headers trailers_;
  GrpcInbox in_;
  std::string out_;
  bool cut_off_ = false;  // a write has not ended as it should: the stream is reset
  FiberMutex mutex_;      // a reader and a writer may fail at the same time
  std::optional<GrpcStatus> failure_;
};

class Http2GrpcService {
 public:
  // Serves a call of any kind: see GrpcCall.
  using Method = std::function<GrpcStatus(GrpcCall&)>;

  // Limits for all methods.
  struct Options {
    std::size_t max_message = 4 << 20;  // that is taken; a larger one ends its call with kResourceExhausted
  };

  // With all Options as they are by default. Has no methods yet: Add() them before it serves.
  Http2GrpcService() : Http2GrpcService(Options()) {}
  // The same with these limits.
  explicit Http2GrpcService(const Options& options);
  Http2GrpcService(const Http2GrpcService&) = delete;
  Http2GrpcService& operator=(const Http2GrpcService&) = delete;

  // `path`: "/package.Service/Method". One that is there is replaced.
  void Add(std::string path, Method method) { methods_[std::move(path)] = std::move(method); }
  // One message each way: handler(call, request, &reply). If the status is kOk, the reply goes out, in one write.
  template <class Request, class Reply, class Handler>
  void AddUnary(const std::string& path, Handler handler) {
    Add(path, [handler = std::move(handler)](GrpcCall& call) {
      Request request;
      if (!call.Read(&request)) return NoMessage();
      if (!call.AwaitEnd()) return GrpcStatus{};  // It says why itself.
      Reply reply;
      GrpcStatus status = handler(call, static_cast<const Request&>(request), &reply);
      if (status.ok()) call.Reply(reply);
      return status;
    });
  }

  // "package.Service" of each path.
  std::set<std::string> services() const;

  // For the constructor of an Http2Server. The service outlives that server.
  Http2Server::Handler handler() {
    return [this](Http2Request& request, Http2Response& response) { Serve(request, response); };
  }

 private:
  // A call that has failed otherwise says so itself.
  static GrpcStatus NoMessage() { return {GrpcCode::kUnimplemented, "a call without a message"}; }

  void Serve(Http2Request& request, Http2Response& response);
  GrpcStatus Call(GrpcCall& call);

  const Options options_;
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_GRPC_H_
