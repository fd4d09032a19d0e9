// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// gRPC methods with streams, served in fibers: ServeServerStream, ServeClientStream, ServeBidiStream,
// FiberServerReader, FiberServerWriter. grpc_server.h includes this file, and says what holds for all handlers.
// Sample:
//   class Store final : public pb::Store::CallbackService {
//     grpc::ServerWriteReactor<pb::Answer>* Watch(grpc::CallbackServerContext* context, const pb::Ask* ask) override {
//       return weft::interop::ServeServerStream<pb::Answer>(
//           context, ask, [](auto& call, const pb::Ask& ask, auto& writer) {
//             pb::Answer answer;
//             while (Next(ask, &answer) && writer.Write(answer)) {  // parks the fiber until gRPC has taken it
//             }
//             return call.IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
//           });
//     }
//     grpc::ServerReadReactor<pb::Ask>* Upload(grpc::CallbackServerContext* context, pb::Answer* answer) override {
//       return weft::interop::ServeClientStream<pb::Ask>(
//           context, answer, [](auto& call, auto& reader, pb::Answer* answer) {
//             pb::Ask ask;
//             while (reader.Read(&ask)) Add(ask, answer);  // parks the fiber until the next message has come
//             return grpc::Status::OK;                     // the client has sent all: see Read()
//           });
//     }
//     grpc::ServerBidiReactor<pb::Ask, pb::Answer>* Chat(grpc::CallbackServerContext* context) override {
//       return weft::interop::ServeBidiStream<pb::Ask, pb::Answer>(
//           context, [](auto& call, auto& reader, auto& writer) {
//             pb::Ask ask;
//             pb::Answer answer;
//             while (reader.Read(&ask)) {
//               Add(ask, &answer);
//               if (!writer.Write(answer)) break;
//             }
//             return grpc::Status::OK;
//           });
//     }
//   };
//
// Two fibers may use a bidirectional stream at once, a reader and a writer. They belong to a FiberScope of the handler:
// when the handler returns, both must be out of the call, or the process ends with a message (GS4). A handler may
// return before it has read all: the client gets the status, and its further messages are dropped.
//
// Rejected: Read() into the caller's message (a cancelled fiber could leave only when the client's next message has
// come). Reading ahead of the caller (it takes a message that a handler which pauses wants to hold back).
#ifndef WEFT_INTEROP_GRPC_SERVER_STREAM_H_
#define WEFT_INTEROP_GRPC_SERVER_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/interop/grpc/grpc_completion.h"
#include "weft/interop/grpc_server_call.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {

// Where a handler reads what its client streams. Any fiber or thread (blocks), one at a time, while the handler runs.
template <class Request>
class FiberServerReader {
 public:
  FiberServerReader(const FiberServerReader&) = delete;
  FiberServerReader& operator=(const FiberServerReader&) = delete;

  // Parks until the client's next message has come, and moves it to *request. False: the client has sent all.
  // A cancellation point. If the client has gone, its message cannot be parsed or the deadline has passed, it throws
  // FiberCancelled. (Where no wait throws, in a shield or in a fiber outside of the call's scope, it returns false: ask
  // FiberServerContext::IsCancelled().) If another scope cancels it, no message is lost: the next Read() gets it.
  // In a client stream a part is not taken for the whole (GS6). For this the end sends the initial metadata: set what
  // you want in them before; from then on no client's retry policy repeats the call unseen. In a bidirectional stream
  // gRPC may tell of the end before the cancellation: if all must have come, let a last message say so.
  [[nodiscard]] bool Read(Request* request) {
    synchronization::BeginCancellationPoint();
    if (!at_end_) {
      if (read_.BeginOrResume("FiberServerReader::Read")) {
        detail::PutReadMark(&message_);
        StartReadInto(&message_);
      }
      const std::optional<bool> ok = read_.AwaitOrLeave();
      if (!ok.has_value()) synchronization::ThrowInterrupted();
      const bool nothing_came = detail::TakeReadMark(&message_);
      if (*ok) {
        *request = std::move(message_);
        return true;
      }
      at_end_ = true;
      if (!nothing_came) context_.CancelBecauseOfAMessage();
      broken_off_ = !nothing_came || !EndIsTheClients();
    }
    context_.ThrowIfCancelled(broken_off_);
    return false;
  }

 protected:
  explicit FiberServerReader(FiberServerContext& context) : context_(context) {}
  ~FiberServerReader() = default;

  detail::GrpcCompletion read_;

 private:
  virtual void StartReadInto(Request* request) = 0;
  // After a read that has ended without a message.  False: the call is over.
  virtual bool EndIsTheClients() = 0;

  FiberServerContext& context_;
  Request message_;  // GS5
  bool at_end_ = false;
  bool broken_off_ = false;  // The end is not one that the client has said.
};

// Where a handler writes what it streams. Any fiber or thread (blocks), one at a time, while the handler runs.
template <class Response>
class FiberServerWriter {
 public:
  FiberServerWriter(const FiberServerWriter&) = delete;
  FiberServerWriter& operator=(const FiberServerWriter&) = delete;

  // Parks until gRPC has taken the message (as much as the client's flow control lets through). False: the call is
  // cancelled or broken, and all further writes will fail too. Only the end of the call cuts it short, since a message
  // sent in part cannot be taken back. To leave a slow client: FiberServerContext::grpc_context().TryCancel().
  // set_buffer_hint() and set_last_message() let gRPC keep a message back, until the next one or the status goes out.
  // In the first write they are ignored: gRPC would also keep back the initial metadata, and end the write only with
  // the status, for which the handler would have to return.
  [[nodiscard]] bool Write(const Response& response, grpc::WriteOptions options = grpc::WriteOptions()) {
    written_.Begin("FiberServerWriter::Write");
    if (is_first_) options.clear_buffer_hint().clear_last_message();
    is_first_ = false;
    StartWriteOf(&response, options);
    return written_.Await();
  }

 protected:
  FiberServerWriter() = default;
  ~FiberServerWriter() = default;

  detail::GrpcCompletion written_;

 private:
  virtual void StartWriteOf(const Response* response, grpc::WriteOptions options) = 0;

  bool is_first_ = true;
};

namespace detail {

inline constexpr char kTheHandlerReturned[] = "a gRPC handler has returned";

template <class Request, class Response, class Handler>
class ServerStreamCall final : public ServerCall<grpc::ServerWriteReactor<Response>, Handler>,
                               private FiberServerWriter<Response> {
 public:
  template <class H>
  ServerStreamCall(grpc::CallbackServerContext* context, const Request* request, H&& handler)
      : ServerStreamCall::ServerCall(context, std::forward<H>(handler)), request_(request) {}

 private:
  grpc::Status CallHandler(Handler& handler) override {
    return handler(this->context(), *request_, static_cast<FiberServerWriter<Response>&>(*this));
  }
  void CheckNobodyUsesIt() const override { this->written_.CheckNobodyAwaits(kTheHandlerReturned); }
  void StartWriteOf(const Response* response, grpc::WriteOptions options) override {
    this->StartWrite(response, options);
  }
  void OnWriteDone(bool ok) override { this->written_.End(ok); }

  const Request* const request_;
};

template <class Request, class Response, class Handler>
class ClientStreamCall final : public ServerCall<grpc::ServerReadReactor<Request>, Handler>,
                               private FiberServerReader<Request> {
 public:
  template <class H>
  ClientStreamCall(grpc::CallbackServerContext* context, Response* response, H&& handler)
      : ClientStreamCall::ServerCall(context, std::forward<H>(handler)),
        FiberServerReader<Request>(this->context()),
        response_(response) {}

 private:
  grpc::Status CallHandler(Handler& handler) override {
    return handler(this->context(), static_cast<FiberServerReader<Request>&>(*this), response_);
  }
  void CheckNobodyUsesIt() const override {
    this->read_.CheckNobodyAwaits(kTheHandlerReturned);
    metadata_sent_.CheckNobodyAwaits(kTheHandlerReturned);
  }
  void StartReadInto(Request* request) override { this->StartRead(request); }
  bool EndIsTheClients() override {  // GS6
    metadata_sent_.Begin("FiberServerReader::Read");
    this->StartSendInitialMetadata();
    return metadata_sent_.Await();
  }
  void OnReadDone(bool ok) override { this->read_.End(ok); }
  void OnSendInitialMetadataDone(bool ok) override { metadata_sent_.End(ok); }

  Response* const response_;
  GrpcCompletion metadata_sent_;
};

template <class Request, class Response, class Handler>
class BidiStreamCall final : public ServerCall<grpc::ServerBidiReactor<Request, Response>, Handler>,
                             private FiberServerReader<Request>,
                             private FiberServerWriter<Response> {
 public:
  template <class H>
  BidiStreamCall(grpc::CallbackServerContext* context, H&& handler)
      : BidiStreamCall::ServerCall(context, std::forward<H>(handler)), FiberServerReader<Request>(this->context()) {}

 private:
  grpc::Status CallHandler(Handler& handler) override {
    return handler(this->context(), static_cast<FiberServerReader<Request>&>(*this),
                   static_cast<FiberServerWriter<Response>&>(*this));
  }
  void CheckNobodyUsesIt() const override {
    this->read_.CheckNobodyAwaits(kTheHandlerReturned);
    this->written_.CheckNobodyAwaits(kTheHandlerReturned);
  }
  void StartReadInto(Request* request) override { this->StartRead(request); }
  // The writer may have sent the initial metadata already, so they say nothing here (GS6). gRPC's context knows of a
  // cancellation before OnCancel() is called, if not always before the read ends.
  bool EndIsTheClients() override { return !this->context().grpc_context().IsCancelled(); }
  void StartWriteOf(const Response* response, grpc::WriteOptions options) override {
    this->StartWrite(response, options);
  }
  void OnReadDone(bool ok) override { this->read_.End(ok); }
  void OnWriteDone(bool ok) override { this->written_.End(ok); }
};

}  // namespace detail

// Runs handler(FiberServerContext&, const Request&, FiberServerWriter<Response>&) -> grpc::Status in a fiber; else as
// ServeUnary.  Response is to be named: ServeServerStream<Answer>(...).
template <class Response, class Request, detail::ServerHandler<const Request&, FiberServerWriter<Response>&> Handler>
[[nodiscard]] grpc::ServerWriteReactor<Response>* ServeServerStream(const FiberAttributes& attributes,
                                                                    grpc::CallbackServerContext* context,
                                                                    const Request* request, Handler&& handler) {
  auto* const call = new detail::ServerStreamCall<Request, Response, std::decay_t<Handler>>(
      context, request, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

// The same in a fiber with the usual attributes.
template <class Response, class Request, detail::ServerHandler<const Request&, FiberServerWriter<Response>&> Handler>
[[nodiscard]] grpc::ServerWriteReactor<Response>* ServeServerStream(grpc::CallbackServerContext* context,
                                                                    const Request* request, Handler&& handler) {
  return ServeServerStream<Response>(FiberAttributes(), context, request, std::forward<Handler>(handler));
}

// Runs handler(FiberServerContext&, FiberServerReader<Request>&, Response*) -> grpc::Status in a fiber; else as
// ServeUnary.  Request is to be named: ServeClientStream<Ask>(...).
template <class Request, class Response, detail::ServerHandler<FiberServerReader<Request>&, Response*> Handler>
[[nodiscard]] grpc::ServerReadReactor<Request>* ServeClientStream(const FiberAttributes& attributes,
                                                                  grpc::CallbackServerContext* context,
                                                                  Response* response, Handler&& handler) {
  auto* const call = new detail::ClientStreamCall<Request, Response, std::decay_t<Handler>>(
      context, response, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

// The same in a fiber with the usual attributes.
template <class Request, class Response, detail::ServerHandler<FiberServerReader<Request>&, Response*> Handler>
[[nodiscard]] grpc::ServerReadReactor<Request>* ServeClientStream(grpc::CallbackServerContext* context,
                                                                  Response* response, Handler&& handler) {
  return ServeClientStream<Request>(FiberAttributes(), context, response, std::forward<Handler>(handler));
}

// Runs handler(FiberServerContext&, FiberServerReader<Request>&, FiberServerWriter<Response>&) -> grpc::Status in a
// fiber; else as ServeUnary.  Both are to be named: ServeBidiStream<Ask, Answer>(...).
template <class Request, class Response,
          detail::ServerHandler<FiberServerReader<Request>&, FiberServerWriter<Response>&> Handler>
[[nodiscard]] grpc::ServerBidiReactor<Request, Response>* ServeBidiStream(const FiberAttributes& attributes,
                                                                          grpc::CallbackServerContext* context,
                                                                          Handler&& handler) {
  auto* const call =
      new detail::BidiStreamCall<Request, Response, std::decay_t<Handler>>(context, std::forward<Handler>(handler));
  call->Start(attributes);
  return call;
}

// The same in a fiber with the usual attributes.
template <class Request, class Response,
          detail::ServerHandler<FiberServerReader<Request>&, FiberServerWriter<Response>&> Handler>
[[nodiscard]] grpc::ServerBidiReactor<Request, Response>* ServeBidiStream(grpc::CallbackServerContext* context,
                                                                          Handler&& handler) {
  return ServeBidiStream<Request, Response>(FiberAttributes(), context, std::forward<Handler>(handler));
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_SERVER_STREAM_H_
