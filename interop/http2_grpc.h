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
#ifndef WEFT_INTEROP_HTTP2_GRPC_H_
#define WEFT_INTEROP_HTTP2_GRPC_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "weft/interop/http2_grpc_call.h"
#include "weft/interop/http2_server.h"

namespace weft::interop {

class Http2GrpcService {
 public:
  using Method = std::function<GrpcStatus(GrpcCall&)>;

  struct Options {
    std::size_t max_message = 4 << 20;  // that is taken; a larger one ends its call with kResourceExhausted
  };

  Http2GrpcService() : Http2GrpcService(Options()) {}
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
